"""The semantics of Gavel's published simulator (OSDI'20), on top of its policy.

A job trains as many whole steps as fit into a round. A round ends with the last of its jobs, and the next
begins at once. Moving a job costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.cluster import Cluster
from ...core.placement import Placement
from ...policies.contract.round import Planner
from ..engine.engine import Engine, Timing
from ..engine.round_clock import Passing
from ..jobs.measured_rates import MeasuredRatesWorld, Rates
from ..jobs.world import ProgressRate
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload

ROUND_S = 360.0
# The options of `GavelPolicy` that match the published simulator at its seed 0.
OPTIONS: dict[str, Any] = {
    "least_hold_s": 1920.0,
    "gpu_types": ("v100", "p100", "k80"),  # the order in which it fills them
    "seed": 5,  # each generator there has a seed of its own
}


def nothing(gpus: int) -> float:
    """Return 0 s, the cost of a restart here."""
    return 0.0


class WholeSteps(MeasuredRatesWorld):
    """Jobs that train the whole steps that fit into a round, then stop (rate 0) and wait for the others."""

    learns = True  # every round sets rates again

    def __init__(self, workload: Workload, rates: Rates) -> None:
        super().__init__(workload, rates, nothing)

    def moves(self, job: int, placement: Placement, progress: float) -> ProgressRate:
        """Return the rate up to the last whole step of the round, at least one step."""
        rate = super().moves(job, placement, progress)
        return ProgressRate(rate.per_s, min(progress + max(math.floor(rate.per_s * ROUND_S), 1), rate.boundary))

    def crosses(self, jobs: Ints, placements: Sequence[Placement], progress: Floats) -> tuple[Floats, Floats]:
        """Return rate nan for jobs that have ended, and 0 for jobs that wait for the next round."""
        ended = progress >= self.workload.steps[jobs]
        return np.where(ended, np.nan, 0.0), np.where(ended, progress, np.inf)


class AfterLastStep:
    """Hold a round when the last running job has trained its whole steps, or else when the next job arrives."""

    def to_round(self, run: Passing) -> None:
        """Go on to the end of the last whole step."""
        boundaries_s = run.boundaries_s()
        # The extra microsecond lets every job reach its last step in spite of rounding.
        last_s = float(boundaries_s.max()) + 1e-6 if len(boundaries_s) else max(run.next_arrival_s(), run.now_s)
        run.pass_until(min(last_s, run.asked_again_s()))


def engine(workload: Workload, rates: Rates, cluster: Cluster, policy: Planner) -> Engine:
    """Return a run of Gavel's published simulator."""
    return Engine(WholeSteps(workload, rates), cluster, policy, Timing(ROUND_S), clock=AfterLastStep())
