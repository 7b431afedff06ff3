"""Jobs of a fixed size whose speed follows their CPUs and memory, as measured profiles say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...core.cluster import Cluster
from ...core.expected import Expected, ExpectedSource
from ...core.placement import Placement
from ...estimators.sensitivity.model import Sensitivity
from ...policies.provisioning.shares import check_amounts
from ..traces.input_profiles import InputProfiles
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .fixed_size import FixedSizeWorld, RestartS, half_a_minute
from .inputs import amounts_of_gpu, rate_of
from .told import ToldByTrace
from .world import ProgressRate


class ToldInput(ToldByTrace):
    """Tell sensitivities, and how long the work that is left takes at the share."""

    def __init__(
        self,
        restart_s: Callable[[int], float],
        work_s: Floats,
        sensitivities: Sequence[Sensitivity],
        at_share: Floats,
    ) -> None:
        super().__init__(restart_s)
        self._work_s, self._sensitivities, self._at_share = work_s, sensitivities, at_share

    def sensitivity(self, job: int) -> Sensitivity:
        """Return the true sensitivity."""
        return self._sensitivities[job]

    def expected(self, job: int, progress: float) -> Expected:
        """Return the true remaining time at the share."""
        left_s = (float(self._work_s[job]) - progress) / float(self._at_share[job])
        return Expected.exactly(max(left_s, 0.0), ExpectedSource.TRACE)

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the seconds left at the share."""
        left: Floats = (self._work_s[jobs] - progress) / self._at_share[jobs]
        return left


class InputBoundWorld(FixedSizeWorld):
    """Jobs whose progress is seconds at the reference share of their profiles.

    A job is as fast as what it has on the node where that is least for each GPU. A policy that gives no CPUs
    leaves a job its GPUs' share of each node. A duration of the trace is that at the reference share.

    Args:
        split_penalty: what the speed of a job on several nodes is multiplied with; 1: nothing is lost.

    Raises:
        ValueError: one sentence, for a job without a profile, for a node without CPUs or memory, and for a share
            that profiles do not cover.
    """

    def __init__(
        self,
        workload: Workload,
        profiles: InputProfiles,
        cluster: Cluster,
        restart_s: RestartS = half_a_minute,
        split_penalty: float = 1.0,
    ) -> None:
        super().__init__(workload, restart_s)
        if not 0 < split_penalty <= 1:
            raise ValueError(f"split_penalty: {split_penalty} is not accepted; above 0 and at most 1 is")
        check_amounts(cluster.nodes)
        self._nodes, self._penalty = cluster.by_id, split_penalty
        names = zip(workload.ids, workload.applications, strict=True)
        found = [profiles.of(name, f"trace: job {id}") for id, name in names]
        self._sensitivities = [one.sensitivity for one in found]
        reference = (profiles.reference_cpus, profiles.reference_gib)
        nodes = [node for node in cluster.nodes if node.gpus]
        share = min(((node.cpus / node.gpus, node.memory_gib / node.gpus) for node in nodes), default=reference)
        self._reference, at_share = self._with(reference), self._with(share)
        step_s = np.array([one.step_s for one in found])
        self.work_s: Floats = np.where(np.isnan(workload.duration_s), workload.steps * step_s, workload.duration_s)
        if (short := np.flatnonzero(~(self.work_s > 0))).size:
            raise ValueError(f"trace: job {workload.ids[short[0]]} has neither a duration nor steps")
        self.told = ToldInput(self.restart_s, self.work_s, self._sensitivities, at_share / self._reference)

    def _with(self, share: tuple[float, float]) -> Floats:
        """Return (jobs,) the speed of each job with a share of CPUs and memory for each GPU."""
        found = []
        columns = zip(self.workload.ids, self._sensitivities, self.workload.gpus.tolist(), strict=True)
        for id, one, gpus in columns:
            if (refusal := one.refusal(gpus, gpus * share[0], gpus * share[1])) is not None:
                raise ValueError(f"trace: job {id}: {refusal}")
            found.append(rate_of(one, gpus, *share))
        return np.array(found, float)

    def moves(self, job: int, placement: Placement, progress: float) -> ProgressRate:
        """Return the rate with the CPUs and the memory of a placement."""
        rate = rate_of(self._sensitivities[job], placement.gpus, *amounts_of_gpu(placement, self._nodes))
        if placement.nodes > 1:
            rate *= self._penalty
        return ProgressRate(rate / float(self._reference[job]), float(self.work_s[job]))

    def ends(self, jobs: Ints) -> Floats:
        return self.work_s[jobs]
