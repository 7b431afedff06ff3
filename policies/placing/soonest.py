"""The place for a job of a fixed size that becomes free soonest, by when jobs are expected to end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...core.cluster import Cluster
from ...core.placement import NodeShare, Placement


@dataclass(frozen=True)
class Soonest:
    """A place, and the seconds from now until all of it is free."""

    place: Placement
    after_s: float


def soonest_place(
    gpus: int,
    gpu_types: Iterable[str],
    cluster: Cluster,
    held: Mapping[str, Placement],
    left_s: Mapping[str, float],
) -> Soonest | None:
    """Return the soonest place of all types; None: no type has so many GPUs on as few nodes as it needs.

    Args:
        held: what each job holds.
        left_s: seconds that each of these jobs still needs; inf: nobody knows.
    """
    found = [one for t in gpu_types if (one := _on_type(gpus, t, cluster, held, left_s)) is not None]
    return min(found, key=lambda one: (one.after_s, one.place.gpu_type), default=None)


def _on_type(
    gpus: int, gpu_type: str, cluster: Cluster, held: Mapping[str, Placement], left_s: Mapping[str, float]
) -> Soonest | None:
    nodes = cluster.of_type(gpu_type)
    if not nodes:
        return None
    ends: dict[str, list[tuple[float, int]]] = {node.id: [] for node in nodes}
    for job, placement in held.items():
        if placement.gpu_type == gpu_type:
            for share in placement.shares:
                if share.node_id in ends:
                    ends[share.node_id].append((left_s[job], share.gpus))
    size = max(node.gpus for node in nodes)
    whole, rest = divmod(gpus, size)
    empty = sorted(
        (_free_after(node.gpus, node.gpus, ends[node.id]), node.id) for node in nodes if node.gpus == size
    )
    if len(empty) < whole:
        return None
    shares, after_s = (
        [NodeShare(id, size) for _, id in empty[:whole]],
        max((at for at, _ in empty[:whole]), default=0.0),
    )
    if rest:
        taken = {share.node_id for share in shares}
        others = [
            (_free_after(node.gpus, rest, ends[node.id]), node.id)
            for node in nodes
            if node.gpus >= rest and node.id not in taken
        ]
        if not others:
            return None
        at, id = min(others)
        shares.append(NodeShare(id, rest))
        after_s = max(after_s, at)
    return Soonest(Placement(gpu_type, tuple(shares)), after_s)


def _free_after(gpus: int, wanted: int, ends: list[tuple[float, int]]) -> float:
    """Return the seconds until `wanted` of a node's GPUs are free; `ends`: (seconds, GPUs) of its jobs."""
    free, after_s = gpus - sum(count for _, count in ends), 0.0
    for end_s, count in sorted(ends):
        if free >= wanted:
            break
        free, after_s = free + count, end_s
    return after_s
