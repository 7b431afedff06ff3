"""Jobs that take a known time on the GPUs they ask for, as in the logs of clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.placement import Placement
from ..traces.node_speeds import NodeSpeeds
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .fixed_size import FixedSizeWorld, RestartS, half_a_minute
from .lengths import Lengths, Sources, told_of
from .world import ProgressRate


class FixedLengthWorld(FixedSizeWorld):
    """Jobs whose progress is seconds of work; all GPU types are equally fast.

    On fewer GPUs than it asks for a job is slower in proportion.

    `restart_s`: seconds without progress when a stopped job starts again, by the GPUs it asks for.
    `lengths`: what policies are told of how long a job still needs; `sources`: for those that come from outside.
    `spread`: how much slower jobs are on more nodes of `node_gpus` GPUs than they need, by their names; None: they
    are not. Policies are told.
    """

    def __init__(
        self,
        workload: Workload,
        restart_s: RestartS = half_a_minute,
        lengths: Lengths = Lengths.TOLD,
        sources: Sources | None = None,
        spread: NodeSpeeds | None = None,
        node_gpus: int = 8,
    ) -> None:
        super().__init__(workload, restart_s)
        told = told_of(lengths, workload, self.restart_s, sources or Sources())
        self._spread: Sequence[Mapping[int, float]] = ()
        if spread is not None:
            needs = zip(workload.names, workload.gpus.tolist(), strict=True)
            self._spread = [spread.of(name, gpus, -(-gpus // node_gpus)) for name, gpus in needs]
            told.spread = self._spread
        self.told = told

    def pause_s(self, job: int, old: Placement | None, new: Placement, left_s: float, first: bool) -> float:
        """Return 0 s for the first start; later a restart, and what is left of an earlier pause."""
        return 0.0 if first else left_s + self.restart_s(job)

    def moves(self, job: int, placement: Placement, progress: float) -> ProgressRate:
        speed = self._spread[job].get(placement.nodes, 1.0) if self._spread else 1.0
        speed *= min(placement.gpus / int(self.workload.gpus[job]), 1.0)  # on fewer it takes more passes a step
        return ProgressRate(speed, float(self.workload.duration_s[job]))

    def ends(self, jobs: Ints) -> Floats:
        return self.workload.duration_s[jobs]
