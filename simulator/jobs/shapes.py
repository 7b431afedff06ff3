"""The replicas of a placement, node by node, and what another placement adds to it. Pure."""

from __future__ import annotations

from ...core.placement import Placement


def shape_of(placement: Placement, gpus_per_replica: int = 1) -> tuple[int, ...]:
    """Return the replicas on each node. A replica that spans nodes counts as if on a node of its own."""
    shape = tuple(share.gpus // gpus_per_replica for share in placement.shares)
    return shape if min(shape) else (1,) * (placement.gpus // gpus_per_replica)


def joins(old: Placement, new: Placement) -> bool:
    """Return whether the new placement adds GPUs, on which processes have to start."""
    have = old.by_node
    return old.gpu_type != new.gpu_type or any(share.gpus > have.get(share.node_id, 0) for share in new.shares)
