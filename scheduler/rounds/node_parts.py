"""CPUs and memory that no policy chooses: each job gets its GPUs' part of its nodes, as far as others leave it.

A policy that does not choose amounts sees and plans the least that jobs start with. So a job that asks for more
than its GPUs' part finds room beside others. The parts of each node are given out here, after the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from ...core.cluster import Cluster, Node
from ...core.job import JobSpec
from ...core.placement import NodeShare, Placement
from ...core.resources import TOLERANCE
from ...policies.placing.demand import Demand


def with_least(placement: Placement, spec: JobSpec, cluster: Cluster) -> Placement:
    """Return a placement with the least that the job starts with, where its user gives no number.

    Equal calls give the same object, as policies compare by identity.
    """
    demand = Demand.of(spec)
    if not _is_chosen(demand):
        return placement
    return _with_least(placement, demand, cluster)


@lru_cache(maxsize=65_536)
def _with_least(placement: Placement, demand: Demand, cluster: Cluster) -> Placement:
    shares = []
    for share in placement.shares:
        node = cluster.by_id.get(share.node_id)
        cpus, memory_gib = (share.cpus, share.memory_gib) if node is None else demand.on(node, share.gpus)
        shares.append(
            replace(
                share,
                cpus=min(cpus, share.cpus) if demand.cpus_per_gpu is None else share.cpus,
                memory_gib=min(memory_gib, share.memory_gib)
                if demand.memory_gib_per_gpu is None
                else share.memory_gib,
            )
        )
    found = Placement(placement.gpu_type, tuple(shares))
    return placement if found == placement else found


def with_parts(
    placements: Mapping[str, Placement], specs: Mapping[str, JobSpec], cluster: Cluster
) -> dict[str, Placement]:
    """Return placements in which jobs have their GPUs' part of CPUs and memory, where no number is given.

    Where others have more than their part, those that lack some get equal fractions of what they lack. A job that
    has its part already keeps its placement, as the same object.

    Args:
        specs: by the ids of placements; a job without one keeps what it has.
    """
    there: dict[str, list[tuple[str, NodeShare]]] = {}
    for job, placement in placements.items():
        for share in placement.shares:
            there.setdefault(share.node_id, []).append((job, share))
    demands = {job: Demand.of(specs[job]) for job in placements if job in specs}
    changed: dict[tuple[str, str], tuple[float, float]] = {}  # (job, node) -> CPUs, memory
    for node_id, held in there.items():
        node = cluster.by_id.get(node_id)
        if node is None or not (node.cpus or node.memory_gib):
            continue
        lacks = {job: _lacks(share, demands.get(job, _GIVEN), node) for job, share in held}
        cpus = _fraction(node.cpus, sum(share.cpus for _, share in held), sum(cpu for cpu, _ in lacks.values()))
        memory = _fraction(
            node.memory_gib, sum(share.memory_gib for _, share in held), sum(gib for _, gib in lacks.values())
        )
        for job, share in held:
            more = lacks[job][0] * cpus, lacks[job][1] * memory
            if max(more) > TOLERANCE:
                changed[job, node_id] = share.cpus + more[0], share.memory_gib + more[1]
    jobs = {job for job, _ in changed}
    return {
        job: _with(placement, changed, job) if job in jobs else placement for job, placement in placements.items()
    }


def alike(one: Placement, other: Placement | None) -> bool:
    """Return whether placements are the same but for what rounding makes of CPUs and memory."""
    if one == other or other is None or one.gpu_type != other.gpu_type or len(one.shares) != len(other.shares):
        return one == other
    return all(
        a == replace(b, cpus=a.cpus, memory_gib=a.memory_gib)
        and abs(a.cpus - b.cpus) <= TOLERANCE
        and abs(a.memory_gib - b.memory_gib) <= TOLERANCE
        for a, b in zip(one.shares, other.shares, strict=True)
    )


_GIVEN = Demand(0.0, 0.0)


def _is_chosen(demand: Demand) -> bool:
    return demand.cpus_per_gpu is None or demand.memory_gib_per_gpu is None


def _lacks(share: NodeShare, demand: Demand, node: Node) -> tuple[float, float]:
    """Return the CPUs and the memory that a job has less than its GPUs' part; 0 where its user gives a number."""
    part = share.gpus * share.share / node.gpus
    return (
        max(node.cpus * part - share.cpus, 0.0) if demand.cpus_per_gpu is None else 0.0,
        max(node.memory_gib * part - share.memory_gib, 0.0) if demand.memory_gib_per_gpu is None else 0.0,
    )


def _fraction(total: float, held: float, lacking: float) -> float:
    return min(max(total - held, 0.0) / lacking, 1.0) if lacking > 0 else 0.0


def _with(placement: Placement, changed: Mapping[tuple[str, str], tuple[float, float]], job: str) -> Placement:
    shares = []
    for share in placement.shares:
        cpus, memory_gib = changed.get((job, share.node_id), (share.cpus, share.memory_gib))
        shares.append(replace(share, cpus=cpus, memory_gib=memory_gib))
    return Placement(placement.gpu_type, tuple(shares))
