"""What policies are told of the jobs of a trace. The truth of the jobs stands apart (`world`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from ...core.expected import UNKNOWN, Expected, ExpectedSource
from ...estimators.goodput import GoodputModel
from ...estimators.sensitivity.model import Sensitivity
from ..traces.tables import Floats
from ..traces.workload import Ints


class Told(Protocol):
    """Answers about jobs, by position in the workload. Progress is in the unit of the job's world."""

    spread: Sequence[Mapping[int, float]]
    exact: bool  # whether `remaining_s` is the truth

    def learn(self, now: float, finished_s: Floats, held_s: Floats) -> None:
        """Update what is told from the jobs that had ended by `now`, before a round.

        Args:
            finished_s: (jobs of the workload,) when each ended; nan: it has not.
            held_s: (jobs of the workload,) seconds with GPUs.
        """

    def restart_cost_s(self, job: int, restarts: int = 0) -> float:
        """Return the expected seconds of the next restart, after `restarts` of them."""

    def model(self, job: int) -> GoodputModel | None:
        """Return the job's goodput model; None: nothing is known."""

    def rates(self, job: int) -> Mapping[str, float] | None:
        """Return the job's progress per second by GPU type; None: only `model` says it."""

    def remaining(self, job: int, progress: float) -> float | None:
        """Return the samples that the job still has to train; None: nobody knows."""

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the means of `expected`; nan: nobody knows."""

    def expected(self, job: int, progress: float) -> Expected:
        """Return what the job still needs on the GPUs it asks for, and the source of that figure."""

    def sensitivity(self, job: int) -> Sensitivity | None:
        """Return how fast the job's input is with given CPUs and memory; None: nobody knows."""

    def on_nodes(self, job: int) -> Mapping[int, float]:
        """Return the job's speed by its number of nodes, over that on the fewest; {}: nobody knows."""

    def high_s(self, jobs: Ints, progress: Floats) -> Floats | None:
        """Return (jobs,) the upper ends of the bands of `expected`; None: there are no doubts."""

    def measured_on(self, job: int) -> int:
        """Return the GPUs on which the job is to train now so that it is measured; 0: it is not to be."""

    def longest_s(self, job: int, progress: float) -> float | None:
        """Return what the job needs if its metric never reaches its target; None: it has none."""


def upper_ends(told: Told, jobs: Ints, progress: Floats) -> Floats:
    """Return (jobs,) the upper ends of the bands of what is expected; nan: nobody knows."""
    expected = [told.expected(*pair) for pair in zip(jobs.tolist(), progress.tolist(), strict=True)]
    return np.array([one.high_s if one.known else np.nan for one in expected], float)


class ToldPlainly:
    """Tell of more nodes what is set. There are no doubts, no job is to be measured, and no metric ends one."""

    spread: Sequence[Mapping[int, float]] = ()  # by job; (): nobody knows
    exact = False

    def on_nodes(self, job: int) -> Mapping[int, float]:
        """Return what is set."""
        return self.spread[job] if self.spread else {}

    def high_s(self, jobs: Ints, progress: Floats) -> Floats | None:
        """Return None."""
        return None

    def measured_on(self, job: int) -> int:
        """Return 0."""
        return 0

    def longest_s(self, job: int, progress: float) -> float | None:
        """Return None."""
        return None


class ToldNoInput(ToldPlainly):
    """Tell nothing of the input of jobs."""

    def sensitivity(self, job: int) -> Sensitivity | None:
        """Return None."""
        return None


class ToldNothing(ToldNoInput):
    """Tell what a restart costs, and nothing else.

    Args:
        restart_s: seconds of a restart, by job.
    """

    def __init__(self, restart_s: Callable[[int], float]) -> None:
        self._restart_s = restart_s

    def learn(self, now: float, finished_s: Floats, held_s: Floats) -> None:
        """Do nothing."""

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
    """Tell the true length: the ends of the band equal `mean_s`.

    A subclass gives it by `remaining_s`.
    """

    exact = True

    def expected(self, job: int, progress: float) -> Expected:
        """Return the true remaining time, if the trace has one."""
        (seconds,) = self.remaining_s(np.array([job]), np.array([progress])).tolist()
        return UNKNOWN if np.isnan(seconds) else Expected.exactly(max(seconds, 0.0), ExpectedSource.TRACE)
