"""The whole study of a trace, as one value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..traces.tables import Floats
from ..traces.workload import Ints
from .capacity import Capacity
from .daily import Daily, daily
from .final_states import FinalStates, final_states
from .implications import implications
from .jobs import StudiedJobs
from .lengths import Lengths, lengths
from .monthly import Monthly, monthly
from .sizes import Sizes, sizes
from .time_bins import Bins, Window, hours, window_of
from .unknown import unknowns
from .users import Users, users
from .verdicts import Implication
from .virtual_clusters import VirtualClusters, virtual_clusters


@dataclass(frozen=True, eq=False)
class Course:
    """The trace from its first to its last hour, one value per bin. `use`: mean GPUs; nan: not known."""

    bins: Bins
    use: Floats
    submissions: Ints


@dataclass(frozen=True, eq=False)
class Study:
    """What a trace tells. None: the trace does not tell it, and `unknown` says why.

    `gpu_s`: GPU time of all jobs, also beyond the window. `use`: mean GPUs in the window; nan: not known.
    """

    name: str
    jobs: StudiedJobs
    capacity: Capacity | None
    window: Window
    gpu_s: float
    use: float
    course: Course | None
    daily: Daily | None
    monthly: Monthly | None
    virtual_clusters: VirtualClusters | None
    lengths: Lengths | None
    sizes: Sizes
    final_states: FinalStates | None
    users: Users | None
    unknown: tuple[str, ...]
    implications: tuple[Implication, ...]

    @property
    def utilisation(self) -> float:
        """Use over the GPUs of the cluster; nan: one of them is not known."""
        return self.use / self.capacity.gpus if self.capacity is not None else float("nan")


def study(jobs: StudiedJobs, capacity: Capacity | None = None, name: str = "trace") -> Study:
    """Study jobs. `capacity`: the GPUs of their cluster; None: not known.

    Raise ValueError if there are no jobs.
    """
    if not len(jobs):
        raise ValueError("trace: has no jobs to study")
    window = window_of(jobs)
    use = float("nan")
    if jobs.lengths_known:
        use = float(Bins(np.array([window.start_s, window.end_s])).gpu_s(jobs.held)[0]) / window.length_s
    try:
        bins = hours(window, jobs.began_s)
    except ValueError:  # too long to be cut into hours, which `unknowns` says
        bins = None
    by_vc = virtual_clusters(jobs, bins, capacity)
    by_day = None if bins is None else daily(jobs, bins)
    by_month = None if bins is None else monthly(jobs, window)
    of_lengths, of_sizes, of_states, of_users = (
        lengths(jobs.length_s),
        sizes(jobs),
        final_states(jobs),
        users(jobs),
    )
    return Study(
        name=name,
        jobs=jobs,
        capacity=capacity,
        window=window,
        gpu_s=float(np.nansum(jobs.gpu_s)),
        use=use,
        course=None if bins is None else _course(jobs, bins),
        daily=by_day,
        monthly=by_month,
        virtual_clusters=by_vc,
        lengths=of_lengths,
        sizes=of_sizes,
        final_states=of_states,
        users=of_users,
        unknown=unknowns(jobs, capacity, bins),
        implications=implications(jobs, by_day, by_month, by_vc, of_sizes, of_states, of_users),
    )


def _course(jobs: StudiedJobs, bins: Bins) -> Course:
    known = 1.0 if jobs.lengths_known else np.nan
    return Course(bins, bins.gpu_s(jobs.held) / bins.width_s * known, bins.count(jobs.submit_s))
