"""The account of what plans give to jobs: each plan is checked before it is applied."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ...core.cluster import Cluster
from ...core.placement import Placement
from ...core.resources import Amounts, Resources
from ...policies.contract.round import Plan
from ...policies.placing.ledger import Ledger
from .errors import BadPlan
from .handover import ANY


class PlanLedger:
    """What every job holds by the last plan. `policy`: the name of the policy, in words.

    `tenants`: how many jobs may be on one GPU.

    Only the changes of a plan are checked; the rest was checked before.
    """

    def __init__(self, cluster: Cluster, policy: str, tenants: int = 1) -> None:
        self._ledger, self._policy = Ledger(cluster, tenants), policy

    def change_nodes(self, cluster: Cluster) -> None:
        """Go on with the nodes that are up. Jobs must have released other nodes before."""
        if cluster is not self._ledger.cluster:
            self._ledger = Ledger.of(cluster, self._ledger.held, self._ledger.tenants)

    def release(self, job: str) -> None:
        """Take from a job what it holds, if it holds anything."""
        if job in self._ledger.held:
            self._ledger.give_back(job)

    def apply(self, plan: Plan, now_s: float, stopped: Collection[str], moved: Mapping[str, Placement]) -> None:
        """Carry out the changes of a plan.

        Args:
            now_s: time of the round, s.
            stopped: jobs that ran and get nothing.
            moved: the new placement of every job whose placement changes.

        Raises:
            BadPlan: a placement is no configuration of the plan, or a node has too little for it.
        """
        for job in (*stopped, *moved):
            self.release(job)
        for job, placement in moved.items():
            if not isinstance(placement, Placement) or not placement.shares:
                raise self.bad(now_s, f"job {job} gets {placement!r}, which names no node")
            if plan.configurations is not None and plan.configurations.index(placement) < 0:
                where = ", ".join(f"{share.gpus} on {share.node_id}" for share in placement.shares)
                raise self.bad(
                    now_s, f"job {job} gets {placement.gpus} {placement.gpu_type} GPUs ({where}), which is no "
                    "configuration of the plan"
                )  # fmt: skip
            try:
                self._ledger.take(job, placement)
            except ValueError as error:
                raise self.bad(now_s, str(error)) from None

    def bad(self, now_s: float, what: str) -> BadPlan:
        """Return the error that ends the run at a round."""
        return BadPlan(f"policy {self._policy}, round at {now_s:g} s: {what}")

    def free_without(self, jobs: Collection[str], nodes: Iterable[str]) -> Amounts:
        """Return what is free on some nodes as if these jobs held nothing, with GPUs counted as in hand-overs."""
        with self._ledger.without(jobs) as rest:
            free = {node: rest.free(node) for node in nodes}
        return {node: Resources({ANY: has.gpus}, has.cpus, has.memory_gib) for node, has in free.items()}
