"""On which GPU types of a cluster a job can run, and what it waits for where there are none. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.cluster import Cluster
from ...core.job import JobSpec
from ...core.sleeping import SleepingNode
from .sleeping_nodes import waited_for, why_it_waits


def allowed_types(spec: JobSpec, cluster: Cluster) -> tuple[str, ...]:
    """Return the GPU types of the job's pool with room for at least one replica of the job on one node."""
    return tuple(
        t
        for t, most in cluster.of_pool(spec.pool or "").largest_nodes.items()
        if (per_replica := spec.gpus_per_replica(t)) is not None and most >= per_replica
    )


def runs_somewhere(spec: JobSpec, cluster: Cluster) -> bool:
    """Return whether `allowed_types` finds any; of most jobs the first type tells."""
    for t, most in cluster.of_pool(spec.pool or "").largest_nodes.items():
        per_replica = spec.gpus_per_replica(t)
        if per_replica is not None and most >= per_replica:
            return True
    return False


def waiting_reason(spec: JobSpec, cluster: Cluster, asleep: Sequence[SleepingNode] = ()) -> str:
    """Return why no node of the job's pool can run the job now."""
    if found := waited_for(spec, cluster, asleep):
        return why_it_waits(found)
    if spec.pool is not None and spec.pool not in cluster.pools:
        return f"waiting for pool {spec.pool}, which has no nodes now"
    wanted, pool = spec.resources.gpu_types, cluster.of_pool(spec.pool or "")
    where = f"pool {spec.pool}" if spec.pool is not None else pool.called if cluster.nodes else "the cluster"
    have = ", ".join(pool.gpu_types) or "no GPUs"
    if wanted is not None and not set(wanted) & set(pool.gpu_types):
        return f"waiting for GPU type {' or '.join(wanted)}; {where} has {have}"
    return f"waiting for a node with enough GPUs for one replica; {where} has {have}"
