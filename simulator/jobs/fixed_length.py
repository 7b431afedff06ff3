"""Jobs that take a known time on the GPUs they ask for, as in the logs of clusters."""

from __future__ import annotations

from ...core.placement import Placement
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .fixed_size import FixedSizeWorld, RestartS, half_a_minute
from .lengths import Lengths, Sources, told_of
from .world import ProgressRate


class FixedLengthWorld(FixedSizeWorld):
    """Jobs whose progress is seconds of work; all GPU types are equally fast.

    `restart_s`: seconds without progress when a stopped job starts again, by the GPUs it asks for.
    `lengths`: what policies are told of how long a job still needs; `sources`: for those that come from outside.
    """

    def __init__(
        self,
        workload: Workload,
        restart_s: RestartS = half_a_minute,
        lengths: Lengths = Lengths.TOLD,
        sources: Sources | None = None,
    ) -> None:
        super().__init__(workload, restart_s)
        self.told = told_of(lengths, workload, self.restart_s, sources or Sources())

    def pause_s(self, job: int, old: Placement | None, new: Placement, left_s: float, first: bool) -> float:
        """Return 0 s for the first start; later a restart, and what is left of an earlier pause."""
        return 0.0 if first else left_s + self.restart_s(job)

    def moves(self, job: int, placement: Placement, progress: float) -> ProgressRate:
        return ProgressRate(1.0, float(self.workload.duration_s[job]))

    def ends(self, jobs: Ints) -> Floats:
        return self.workload.duration_s[jobs]
