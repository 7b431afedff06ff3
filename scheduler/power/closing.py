"""Closes a node to everybody before its machine is powered off, and finds out whether anything runs there.

Coadapt's lease stays until the machine is off, so that nobody takes the GPUs meanwhile. A second placement group
takes the CPUs that the lease leaves to others. Where that is not granted, somebody is there.

Ray's own way to drain a node ends its raylet for good. If the command to power off failed then, the machine would
stay on and be of no use. What is closed here can be opened again.
"""

from __future__ import annotations

import time
from collections.abc import Container, Mapping, Sequence
from typing import Any, Protocol

import ray
from ray.util import get_placement_group, placement_group, placement_group_table, remove_placement_group

from ...core.cluster import Node

GRANT_S = 5.0
SETTLE_S, LOOK_S = 3.0, 0.2
OURS = ("CPU", "GPU")  # all of these is in the lease or in the closing group
NAME = "coadapt-close-"
LISTENER = "NoticeListener"  # the class of `scheduler/nodes/notice_listener.py`, which ends with its node


class Inside(Protocol):
    """What Ray knows of a node and tells by no public call."""

    def actors_on(self, node_id: str) -> Sequence[str]:
        """Return the names of living actors on a node."""

    def free_on(self, node_id: str) -> Mapping[str, float]:
        """Return what is free of each resource of a node."""


def close(node: Node, inside: Inside) -> str:
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
    if actors := [name for name in inside.actors_on(node.id) if name != LISTENER]:
        return f"a Ray actor is there: {actors[0]}"
    deadline = time.monotonic() + SETTLE_S
    while taken := _taken(inside.free_on(node.id), row["Resources"]):
        if time.monotonic() > deadline:
            return f"another Ray application uses its {', '.join(taken)}"
        time.sleep(LOOK_S)  # Ray tells what is free a moment late
    return ""


def _taken(free: Mapping[str, float], total: Mapping[str, float]) -> list[str]:
    """Return the resources of a node that somebody uses beside its GPUs and CPUs, as memory or stored objects."""
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
