"""Jobs of known length as Lucid's published simulator runs them (S-Lab-System-Group/Lucid @ 9b9ba89).

It steps second by second. `fifo` and `sjf` admit jobs at every second and end them on time. Its preemptive
policies count a job's remaining seconds down before they look whether any are left. So every job ends, and
frees its GPUs, one second late. `srtf` is asked every second, which is the same as at every arrival and end.
`tiresias` is asked at full minutes of the clock. A preemption adds 40 s of work, or 60 s beyond 8 GPUs.
"""

from __future__ import annotations

import numpy as np

from ...core.cluster import Cluster
from ...core.placement import Placement
from ...policies.catalogue import make_policy
from ...policies.contract.round import JobColumns, Planner
from ...policies.las import LasPolicy
from ..engine.engine import Engine, Timing
from ..jobs.fixed_length import FixedLengthWorld
from ..jobs.lengths import ToldLengths
from ..jobs.world import ProgressRate
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload

POLICIES = ("fifo", "sjf", "srtf", "las")
LATE_S = 1.0  # time from the end of a job's work to its end, with preemptive policies
MINUTE_S = 60.0


def preemption_s(gpus: int) -> float:
    """Return the seconds of work that one preemption adds."""
    return 40.0 if gpus <= 8 else 60.0


class ToldCountdown(ToldLengths):
    """Tell how long a job still holds its GPUs."""

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the seconds of work left, and the second by which the job ends late."""
        return super().remaining_s(jobs, progress) + LATE_S


class CountdownWorld(FixedLengthWorld):
    """Jobs that end `LATE_S` after their work is done."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload, preemption_s)
        self.told = ToldCountdown(self.restart_s, workload)

    def moves(self, job: int, placement: Placement, progress: float) -> ProgressRate:
        """Return a rate of one second per second, to the late end of the job."""
        return ProgressRate(1.0, float(self.workload.duration_s[job]) + LATE_S)


class Tiresias(LasPolicy):
    """Tiresias, where a job falls to the next level only above the threshold, not at the threshold."""

    def key(self, columns: JobColumns) -> np.ndarray:
        """Return (jobs,) the level of each job."""
        thresholds = np.array(self.options.thresholds_gpu_s)
        return np.searchsorted(thresholds, columns.attained_gpu_s, side="left").astype(float)


def engine(policy: str, workload: Workload, cluster: Cluster) -> Engine:
    """Return a run under one of `POLICIES`. Raise ValueError for another policy."""
    if policy not in POLICIES:
        raise ValueError(f"policy: {policy!r} has no semantics of Lucid; accepted: {', '.join(POLICIES)}")
    if policy in ("fifo", "sjf"):
        return Engine(FixedLengthWorld(workload, preemption_s), cluster, make_policy(policy), Timing(events=True))
    chosen: Planner = Tiresias() if policy == "las" else make_policy(policy)
    timing = Timing(events=True) if policy == "srtf" else Timing(MINUTE_S, first_s=-workload.clock_s % MINUTE_S)
    return Engine(CountdownWorld(workload), cluster, chosen, timing)
