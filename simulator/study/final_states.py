"""How jobs end, and how much GPU time ends so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..traces.final_state import FinalState
from ..traces.tables import Floats
from ..traces.workload import Ints
from .groups import Groups
from .jobs import STATES, StudiedJobs
from .sizes import size_groups

COUNTED = (FinalState.COMPLETED, FinalState.CANCELLED, FinalState.FAILED)


@dataclass(frozen=True, eq=False)
class FinalStates:
    """Of the jobs whose end is known, one value per state in the order of `STATES`.

    `by_size`: (sizes, 3) shares of jobs that completed, were cancelled or failed, where time-outs and lost nodes
    count as failures. `time_share` is nan where no length is known.
    """

    jobs: Ints
    job_share: Floats
    time_share: Floats
    median_length_s: Floats
    size_names: tuple[str, ...]
    by_size: Floats
    size_jobs: Ints

    @property
    def known(self) -> int:
        return int(self.jobs.sum())

    @property
    def unsuccessful(self) -> float:
        """The share of jobs that did not complete."""
        return 1.0 - float(self.job_share[STATES.index(FinalState.COMPLETED)])

    def of(self, state: FinalState, shares: Floats) -> float:
        """Return the share of a state with those that count as it."""
        return float(sum(shares[at] for at, one in enumerate(STATES) if one.counted_as is state))


def final_states(jobs: StudiedJobs) -> FinalStates | None:
    """Return how jobs ended; None: of no job is it known."""
    some = jobs.states >= 0
    if not some.any():
        return None
    by_state = Groups(tuple(STATES), jobs.states)
    count = by_state.jobs()
    gpu_s = by_state.sums(jobs.gpu_s)
    by_size = size_groups(jobs.gpus[some])
    counted = jobs.counted_states[some]
    size_jobs = by_size.jobs()
    table = np.array([by_size.sums((counted == STATES.index(state)).astype(float)) for state in COUNTED]).T
    return FinalStates(
        jobs=count,
        job_share=count / count.sum(),
        time_share=gpu_s / (float(gpu_s.sum()) or np.nan),
        median_length_s=by_state.medians(jobs.length_s),
        size_names=by_size.names,
        by_size=table / size_jobs[:, None],
        size_jobs=size_jobs,
    )
