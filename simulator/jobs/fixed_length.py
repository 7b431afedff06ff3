"""Jobs that take a known time on the GPUs they ask for, as in the logs of clusters."""

from __future__ import annotations

from collections.abc import Callable

from ...core.placement import Placement
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .fixed_size import FixedSizeWorld, RestartS, half_a_minute
from .learned_lengths import Lengths, ToldLearned
from .told import ToldByTrace
from .world import ProgressRate


class ToldLengths(ToldByTrace):
    """Tell what is left of a job's true length."""

    def __init__(self, restart_s: Callable[[int], float], workload: Workload) -> None:
        super().__init__(restart_s)
        self._workload = workload

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the seconds left, on any GPU type."""
        return self._workload.duration_s[jobs] - progress


class FixedLengthWorld(FixedSizeWorld):
    """Jobs whose progress is seconds of work; all GPU types are equally fast.

    `restart_s`: seconds without progress when a stopped job starts again, by the GPUs it asks for.
    `lengths`: what policies are told of how long a job still needs.
    """

    def __init__(
        self, workload: Workload, restart_s: RestartS = half_a_minute, lengths: Lengths = Lengths.TOLD
    ) -> None:
        super().__init__(workload, restart_s)
        if lengths is Lengths.TOLD:
            self.told = ToldLengths(self.restart_s, workload)
        elif lengths is Lengths.LEARNED:
            self.told = ToldLearned(self.restart_s, workload)

    def pause_s(self, job: int, old: Placement | None, new: Placement, left_s: float, first: bool) -> float:
        """Return 0 s for the first start; later a restart, and what is left of an earlier pause."""
        return 0.0 if first else left_s + self.restart_s(job)

    def moves(self, job: int, placement: Placement, progress: float) -> ProgressRate:
        return ProgressRate(1.0, float(self.workload.duration_s[job]))

    def ends(self, jobs: Ints) -> Floats:
        return self.workload.duration_s[jobs]
