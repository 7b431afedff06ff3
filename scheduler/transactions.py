"""Transactions of the job store that hold for memory as well as for the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class Transactions:
    """The transactions of one connection in autocommit mode. The caller holds the lock of the connection.

    What is kept in memory changes together with the file. Each change in memory says how to undo it. If the
    transaction fails, all of them are undone.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._depth = 0
        self._undo: list[Callable[[], None]] = []

    @contextmanager
    def begin(self) -> Iterator[None]:
        """Write everything within, or nothing of it. An inner transaction can fail by itself."""
        depth, mark = self._depth, len(self._undo)
        if (
            depth and not self._db.in_transaction
        ):  # a full disk may have ended it; what follows must not stand alone
            raise sqlite3.OperationalError("the transaction around this one has failed")
        self._db.execute("begin immediate" if depth == 0 else f"savepoint level{depth}")
        self._depth += 1
        try:
            yield
            self._db.execute("commit" if depth == 0 else f"release level{depth}")
        except BaseException:
            self._take_back(mark)
            self._roll_back(depth)
            raise
        finally:
            self._depth = depth
        if depth == 0:
            self._undo.clear()

    def on_failure(self, undo: Callable[[], None]) -> None:
        """Call `undo` if the transaction under way fails. Later changes are undone before earlier ones."""
        if self._depth:
            self._undo.append(undo)

    def _take_back(self, mark: int) -> None:
        while len(self._undo) > mark:
            self._undo.pop()()

    def _roll_back(self, depth: int) -> None:
        # If the disk is full or fails, sqlite may have rolled the whole transaction back already.
        if not self._db.in_transaction:
            return
        with suppress(sqlite3.Error):  # the first error says what is wrong
            if depth == 0:
                self._db.execute("rollback")
            else:
                self._db.execute(f"rollback to level{depth}")
                self._db.execute(f"release level{depth}")
