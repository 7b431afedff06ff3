"""The semantics of Gavel's published simulator (OSDI'20), on top of its policy.

A job trains whole steps, as many as fit a round; a round ends with the last of its jobs, and the next begins at
once. Moving a job costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.placement import Placement
from ..engine.engine import Engine
from ..jobs.measured_rates import MeasuredRatesWorld, Rates
from ..jobs.world import Motion
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload

ROUND_S = 360.0
# Of `GavelPolicy`, as the published simulator has them at its seed 0.
OPTIONS: dict[str, Any] = {
    "least_hold_s": 1920.0,
    "gpu_types": ("v100", "p100", "k80"),  # in the order in which it fills them
    "seed": 5,  # it seeds each of its generators with another number
}


def nothing(gpus: int) -> float:
    return 0.0


class WholeSteps(MeasuredRatesWorld):
    """Each round a job trains the whole steps that fit it and then waits for the others."""

    learns = True  # so that every round sets motions anew

    def __init__(self, workload: Workload, rates: Rates) -> None:
        super().__init__(workload, rates, nothing)

    def moves(self, job: int, placement: Placement, progress: float) -> Motion:
        motion = super().moves(job, placement, progress)
        return Motion(motion.rate, min(progress + max(math.floor(motion.rate * ROUND_S), 1), motion.boundary))

    def crosses(self, jobs: Ints, placements: Sequence[Placement], progress: Floats) -> tuple[Floats, Floats]:
        ended = progress >= self.workload.steps[jobs]
        return np.where(ended, np.nan, 0.0), np.where(ended, progress, np.inf)


class GavelEngine(Engine):
    """A round ends when the last job has trained its steps."""

    def _advance(self, until_s: float) -> None:
        """The time a job waits for the others after its last whole step is not counted as held."""
        jobs, running = self._jobs, self._running()
        busy_s = jobs.pause_s[running] + (jobs.boundary[running] - jobs.progress[running]) / jobs.rate[running]
        waits_s = np.maximum(until_s - self._now - busy_s, 0.0)
        gpus = jobs.gpus[running].copy()
        super()._advance(until_s)
        goes_on = np.isnan(jobs.finished_s[running])
        jobs.held_s[running[goes_on]] -= waits_s[goes_on]
        jobs.attained_gpu_s[running[goes_on]] -= (waits_s * gpus)[goes_on]

    def _next_round_s(self) -> float:
        running = self._running()
        if len(running):
            jobs = self._jobs
            left = (jobs.boundary[running] - jobs.progress[running]) / jobs.rate[running]
            # A little later, so that rounding leaves nobody short of its last step.
            return float(self._now + left.max()) + 1e-6
        submit_s = self.world.workload.submit_s
        arrival = float(submit_s[self._next]) if self._next < len(submit_s) else math.inf
        return max(arrival, self._now)
