"""The rules by which Hydro's allocator chooses GPU types (section 3.5.2), as a policy of rounds.

Jobs are served in the order in which they came, and keep what they have. What keeps an A100 busy for less than
half of the time goes to an older GPU: targets always, groups of trials if other jobs wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.placement import NodeShare, Placement
from ...policies.contract.round import JobView, Plan, Round

LEAST_ACTIVITY = 0.5


class ThesisRules:
    """Serve jobs in order. `newest_first`: GPU types from the newest on. A view's `progress` is its activity."""

    def __init__(self, newest_first: Sequence[str] = ("a100", "v100")) -> None:
        self.newest_first = tuple(newest_first)

    def plan(self, round: Round) -> Plan:
        """Return placements on whole devices that are free."""
        free = {node.id: set(range(node.gpus)) for node in round.cluster.nodes}
        placements: dict[str, Placement] = {}
        for job in round.jobs:
            if job.placement is not None:
                placements[job.id] = job.placement
                for share in job.placement.shares:
                    free[share.node_id] -= set(share.devices)
        waiting = [job for job in round.jobs if job.placement is None]
        for job in waiting:
            found = self._place(job, round, free, len(waiting) > 1)
            if found is not None:
                placements[job.id] = found
        return Plan(placements)

    def _place(self, job: JobView, round: Round, free: dict[str, set[int]], pending: bool) -> Placement | None:
        gpus = job.spec.resources.gpus or 1
        light = job.progress < LEAST_ACTIVITY and (pending or job.spec.resources.gpus is None)
        for gpu_type in reversed(self.newest_first) if light else self.newest_first:
            for node in round.cluster.of_type(gpu_type):
                if len(free[node.id]) >= gpus:
                    devices = tuple(sorted(free[node.id])[:gpus])
                    free[node.id] -= set(devices)
                    return Placement(gpu_type, (NodeShare(node.id, gpus, devices=devices),))
        return None
