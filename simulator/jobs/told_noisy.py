"""Lengths that are told with errors, as runtimes cannot be foretold exactly (UniSched, Figure 9d)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.expected import Expected, ExpectedSource
from ...estimators.predictor import Z
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .told import ToldNothing

LEAST = 0.05  # of its length that a job is told to take


class ToldNoisy(ToldNothing):
    """Tell lengths that are off by a normal error, drawn once for each job, and a band for it.

    A job that has trained as long as was told, or nearly so, is told to need a small part of that still.

    Args:
        deviation: standard deviation of what is told, over the true length.
        seed: of the errors.
    """

    def __init__(
        self, restart_s: Callable[[int], float], workload: Workload, deviation: float, seed: int = 0
    ) -> None:
        super().__init__(restart_s)
        factors = 1.0 + deviation * np.random.default_rng([seed, 61]).standard_normal(len(workload))
        self._told_s = workload.duration_s * np.maximum(factors, LEAST)
        self._wide = Z * deviation

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) what is left of what is told."""
        return np.maximum(self._told_s[jobs] - progress, LEAST * self._told_s[jobs])

    def high_s(self, jobs: Ints, progress: Floats) -> Floats | None:
        """Return (jobs,) the upper ends of bands that hold four errors of five."""
        return np.maximum(self._told_s[jobs] * (1 + self._wide) - progress, self.remaining_s(jobs, progress))

    def expected(self, job: int, progress: float) -> Expected:
        """Return what is left, with its band."""
        told_s = float(self._told_s[job])
        mean_s = max(told_s - progress, LEAST * told_s)
        low_s, high_s = (told_s * (1 + side * self._wide) - progress for side in (-1, 1))
        return Expected(mean_s, min(max(low_s, 0.0), mean_s), max(high_s, mean_s), ExpectedSource.MEASURED_SPEED)
