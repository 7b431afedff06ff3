"""What policies are told of the jobs of a trace, apart from what is true of them (`world`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from ...core.expected import UNKNOWN, Expected, ExpectedSource
from ...estimators.goodput import GoodputModel
from ..traces.tables import Floats
from ..traces.workload import Ints


class Told(Protocol):
    """Answers by a job's position in the workload; progress is in its world's unit."""

    def learn(self, now: float, finished_s: Floats, held_s: Floats) -> None:
        """Learn from the jobs that had ended by `now`, before a round.

        Args:
            finished_s: (jobs of the workload,) nan: has not ended.
            held_s: (jobs of the workload,) seconds with GPUs.
        """

    def restart_cost_s(self, job: int, restarts: int = 0) -> float:
        """Return what a restart is taken to cost, after so many."""

    def model(self, job: int) -> GoodputModel | None:
        """Return what is known of its goodput."""

    def rates(self, job: int) -> Mapping[str, float] | None:
        """Return its progress per second by GPU type, where that was measured apart from `model`."""

    def remaining(self, job: int, progress: float) -> float | None:
        """Return the samples that it still has to train; None: nobody knows."""

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the means of `expected`; nan: nobody knows."""

    def expected(self, job: int, progress: float) -> Expected:
        """Return what it still needs on the GPUs it asks for, and where that comes from."""


class ToldNothing:
    """Tells what a restart costs, and nothing else.

    Args:
        restart_s: seconds of a restart, by job.
    """

    def __init__(self, restart_s: Callable[[int], float]) -> None:
        self._restart_s = restart_s

    def learn(self, now: float, finished_s: Floats, held_s: Floats) -> None:
        """Learn nothing."""

    def restart_cost_s(self, job: int, restarts: int = 0) -> float:
        """Return the true cost, which is the same every time."""
        return self._restart_s(job)

    def model(self, job: int) -> GoodputModel | None:
        """Return None."""
        return None

    def rates(self, job: int) -> Mapping[str, float] | None:
        """Return None."""
        return None

    def remaining(self, job: int, progress: float) -> float | None:
        """Return None."""
        return None

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) nan."""
        return np.full(len(jobs), np.nan)

    def expected(self, job: int, progress: float) -> Expected:
        """Return that nobody knows."""
        return UNKNOWN


class ToldByTrace(ToldNothing):
    """Tells the true length: `mean_s` and the ends of the band are the same. A subclass says what it is."""

    def expected(self, job: int, progress: float) -> Expected:
        """Return the true remaining time, where the trace has one."""
        (seconds,) = self.remaining_s(np.array([job]), np.array([progress])).tolist()
        return UNKNOWN if np.isnan(seconds) else Expected.exactly(max(seconds, 0.0), ExpectedSource.TRACE)
