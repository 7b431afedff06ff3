"""All that this project calls of Ray without Ray promising it. Nothing else may; a test holds the names.

Each function says which public call is missing. `tests/scheduler/runtime/test_ray_private.py` checks their shapes.
"""

from __future__ import annotations

from collections.abc import Mapping

import ray


def draining_nodes() -> dict[str, float | None]:
    """Return the nodes that Ray drains, and when they end by wall time; None: it is not told.

    Ray has no public call for it; Ray Train uses this one, too.
    """
    found: Mapping[str, int] = ray._private.state.state.get_draining_nodes()
    return {node: deadline_ms / 1000 if deadline_ms > 0 else None for node, deadline_ms in found.items()}


def actors_on(node_id: str) -> list[str]:
    """Return the names or classes of living actors on a node. There is no public call without Ray's dashboard."""
    return [
        str(actor["Name"] or actor["ActorClassName"])
        for actor in ray._private.state.actors().values()
        if actor["Address"]["NodeID"] == node_id and actor["State"] != "DEAD"
    ]


def free_on(node_id: str) -> Mapping[str, float]:
    """Return what is free of each resource of a node. Ray's public call sums over all nodes."""
    found: Mapping[str, float] = ray._private.state.available_resources_per_node().get(node_id, {})
    return found


def without_worker_logs() -> None:
    """Keep Ray from printing logs of workers to this process's terminal. It has no public switch for that."""
    ray._private.worker._worker_logs_enabled = False
