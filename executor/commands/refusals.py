"""How many statuses of a program were not taken, over all its starts, until the scheduler is told. Pure."""

from __future__ import annotations

from ..protocol.command_events import Refused
from ..protocol.job_events import StatusesRefused


class Refusals:
    """Counts refused statuses of one process of the executor, which `executor` names."""

    def __init__(self, executor: str) -> None:
        self._executor = executor
        self._totals: dict[str, int] = {}  # by worker
        self._last = ""
        self._told = 0

    def hear(self, worker: str, event: Refused) -> bool:
        """Take in what a worker tells, also twice; return whether it is the first of all."""
        first = not self._totals
        if event.total > self._totals.get(worker, 0):
            self._totals[worker], self._last = event.total, event.sentence
        return first

    def take(self) -> StatusesRefused | None:
        """Return what is new since the last call; None: nothing."""
        count = sum(self._totals.values())
        if count == self._told:
            return None
        self._told = count
        return StatusesRefused(self._executor, count, self._last)
