"""Closes a node to everybody before its machine is powered off, and finds out whether anything runs there.

Coadapt's lease stays until the machine is off, so that nobody takes the GPUs meanwhile. A second placement group
takes the CPUs that the lease leaves to others. Where that is not granted, somebody is there.

Ray's own way to drain a node ends its raylet for good. If the command to power off failed then, the machine would
stay on and be of no use. What is closed here can be opened again.
"""

from __future__ import annotations

import time
from collections.abc import Container, Mapping
from typing import Any

import ray
from ray.util import get_placement_group, placement_group, placement_group_table, remove_placement_group

from ...core.cluster import Node

GRANT_S = 5.0
SETTLE_S, LOOK_S = 3.0, 0.2
OURS = ("CPU", "GPU")  # all of these is in the lease or in the closing group
NAME = "coadapt-close-"


def close(node: Node) -> str:
    """Close a node. Return what else is there, part of a sentence; empty: it is closed, and nothing runs there."""
    row = next((row for row in ray.nodes() if row["Alive"] and row["NodeID"] == node.id), None)
    if row is None:
        return "its node has just gone"
    if (spare := float(row["Resources"].get("CPU", 0.0)) - node.cpus) > 1e-6:
        group = _find(NAME + node.id) or placement_group(
            [{"CPU": spare}],
            strategy="STRICT_PACK",
            bundle_label_selector=[{"ray.io/node-id": node.id}],
            lifetime="detached",
            name=NAME + node.id,
        )
        if not group.wait(timeout_seconds=GRANT_S):
            return "another Ray application uses CPUs there"
    # Ray has no public call for the actors of a node without its dashboard.
    for actor in ray._private.state.actors().values():
        if actor["Address"]["NodeID"] == node.id and actor["State"] != "DEAD":
            return f"a Ray actor is there: {actor['Name'] or actor['ActorClassName']}"
    deadline = time.monotonic() + SETTLE_S
    while taken := _taken(node.id, row["Resources"]):
        if time.monotonic() > deadline:
            return f"another Ray application uses its {', '.join(taken)}"
        time.sleep(LOOK_S)  # Ray tells what is free a moment late
    return ""


def _taken(node_id: str, total: Mapping[str, float]) -> list[str]:
    """Return the resources of a node that somebody uses beside its GPUs and CPUs, as memory or stored objects."""
    free: Mapping[str, float] = ray._private.state.available_resources_per_node().get(node_id, {})
    return [name for name in sorted(total) if name not in OURS and free.get(name, 0.0) < total[name] - 1e-6]


def reopen(node: Node) -> None:
    """Give back what `close` took."""
    _remove(NAME + node.id)


def forget(node: Node, lease: str) -> None:
    """Remove what was taken of a node that is gone: Ray would look for another place for it. `lease`: its name."""
    _remove(NAME + node.id)
    _remove(lease)


def reopen_all_but(nodes: Container[str]) -> None:
    """Give back what an earlier service took, but of nodes that are to stay closed."""
    for row in placement_group_table().values():
        name = str(row.get("name", ""))
        if name.startswith(NAME) and name.removeprefix(NAME) not in nodes:
            _remove(name)


def _find(name: str) -> Any | None:
    try:
        return get_placement_group(name)
    except ValueError:
        return None


def _remove(name: str) -> None:
    if (group := _find(name)) is not None:
        remove_placement_group(group)
