"""Rows of jobs that have ended, for a fit: arrays that grow. A fit reads a part that nobody changes any more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .features import COLUMNS, Floats


class EndedColumns(NamedTuple):
    """Jobs that have ended.

    rows: (jobs, columns) as they were at submission.
    seconds: (jobs,) with GPUs.
    forecast_logs: (jobs,) logs of the typical lengths that were foretold.
    """

    rows: Floats
    seconds: Floats
    forecast_logs: Floats


def _empty(count: int) -> EndedColumns:
    return EndedColumns(np.empty((count, len(COLUMNS))), np.empty(count), np.empty(count))


class EndedRows:
    """Keeps the newest jobs that have ended.

    Args:
        most: jobs kept; older ones are dropped in bulk.
    """

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0
        self._kept = _empty(1024)

    def __len__(self) -> int:
        return self._count

    def add(self, numbers: Floats, seconds: float, forecast_log: float) -> None:
        """Add a job that has ended; `numbers`: as they were when it was submitted."""
        if self._count == len(self._kept.seconds):
            self._make_room()
        at, kept = self._count, self._kept
        kept.rows[at], kept.seconds[at], kept.forecast_logs[at] = numbers, seconds, forecast_log
        self._count += 1

    def _make_room(self) -> None:
        """Move to new arrays, as a fit in another thread may read the old ones."""
        first = self._count // 2 if self._count >= 2 * self._most else 0
        kept = EndedColumns(*(column[first : self._count] for column in self._kept))
        self._count -= first
        self._kept = _empty(2 * self._count)
        for column, old in zip(self._kept, kept, strict=True):
            column[: self._count] = old

    def newest(self) -> EndedColumns:
        """Return the newest jobs. They do not change later."""
        first = max(self._count - self._most, 0)
        return EndedColumns(*(column[first : self._count] for column in self._kept))
