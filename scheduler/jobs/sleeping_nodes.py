"""Which jobs wait for nodes that are powered off, and what they are told. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.cluster import Cluster
from ...core.job import JobSpec
from ...core.sleeping import SleepingNode, with_sleeping


def waited_for(spec: JobSpec, cluster: Cluster, asleep: Sequence[SleepingNode]) -> tuple[SleepingNode, ...]:
    """Return the sleeping nodes without which a job cannot run; none if it can, or no node of its pool could.

    Args:
        cluster: the nodes that are awake.
    """
    pool = spec.pool or ""
    mine = [one for one in asleep if one.node.pool == pool]
    if not mine or _types(spec, cluster.of_pool(pool)):
        return ()
    types = _types(spec, with_sleeping(cluster.of_pool(pool), mine))
    return tuple(one for one in mine if one.node.gpu_type in types)


def _types(spec: JobSpec, part: Cluster) -> set[str]:
    """Return the GPU types with enough GPUs for the least that a job accepts, on nodes that hold a replica."""
    least, found = spec.resources.gpus or spec.resources.min_gpus, set[str]()
    for gpu_type, gpus in part.capacity().items():
        each = spec.gpus_per_replica(gpu_type)
        if each is None or each > part.largest_nodes[gpu_type]:
            continue
        sizes = spec.sizes_on(gpu_type)
        if gpus >= max(each, least if sizes is None else min(sizes, default=gpus + 1)):
            found.add(gpu_type)
    return found


def why_it_waits(found: Sequence[SleepingNode]) -> str:
    """Return what a job is told that waits for these nodes."""
    if coming := [one for one in found if one.waking]:
        soonest = min(coming, key=lambda one: one.boot_s)
        return f"its node {'was asked for' if soonest.bought else 'wakes'}, about {_minutes(soonest.boot_s)}"
    if all(one.bought for one in found):
        types = " or ".join(sorted({one.node.gpu_type for one in found}))
        return f"waiting for GPU type {types}, of which a node is asked for once the need has lasted"
    types = " or ".join(sorted({one.node.gpu_type for one in found}))
    return f"waiting for GPU type {types}, whose nodes sleep; one is still to be woken"


def _minutes(seconds: float) -> str:
    """Format a time as people say it."""
    return f"{max(round(seconds / 60), 1)} min" if seconds >= 60 else f"{round(seconds)} s"
