"""Keeps house beside rounds, in a thread of its own: regular backups, and what retention removes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from ...core.wording import in_words
from ..store.failures import LostStore, StoreFailure

log = logging.getLogger(__name__)

LOOK_S = 20.0


class Chore(Protocol):
    """Something that is to be done now and then."""

    def keep_up(self) -> object:
        """Do what is due, if anything is."""

    def notes(self) -> list[str]:
        """Return sentences for an operator."""


class Housekeeping:
    """Looks at chores one after another. One that raises keeps no other from being done."""

    def __init__(self, chores: Sequence[Chore]) -> None:
        self._chores = chores
        self._stop = threading.Event()
        self._troubles: dict[int, str] = {}
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no further chore."""
        self._stop.set()

    def look(self) -> None:
        """Do what is due now."""
        for at, chore in enumerate(self._chores):
            try:
                chore.keep_up()
                self._troubles.pop(at, None)
            except LostStore:
                self._stop.set()  # the loop ends the process
                return
            except StoreFailure:
                log.warning("the store does not write; housekeeping waits")
            except Exception as error:
                if self._troubles.get(at) != in_words(error):
                    log.exception("housekeeping")
                self._troubles[at] = in_words(error)

    def notes(self) -> list[str]:
        """Return sentences for an operator."""
        failed = [f"housekeeping fails: {text}" for text in self._troubles.values()]
        return [*failed, *(note for chore in self._chores for note in chore.notes())]

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            self.look()
