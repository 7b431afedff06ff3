"""A table of the job store that holds one text for each name."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from threading import RLock

from .transactions import Transactions


class TextRows:
    """The rows of one table, of a connection that others use, too."""

    def __init__(self, db: sqlite3.Connection, lock: RLock, transactions: Transactions, table: str) -> None:
        self._db, self._lock, self._transactions, self._table = db, lock, transactions, table

    def read(self) -> Mapping[str, str]:
        """Return all texts by name."""
        with self._lock:
            return dict(self._db.execute(f"select name, text from {self._table} order by name"))

    def write(self, texts: Mapping[str, str], gone: Iterable[str] = ()) -> None:
        """Write some texts and remove the rows of others, in one transaction."""
        with self._lock, self._transactions.begin():
            self._db.executemany(f"replace into {self._table} values(?,?)", list(texts.items()))
            self._db.executemany(f"delete from {self._table} where name=?", [(name,) for name in gone])
