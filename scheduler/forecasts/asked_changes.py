"""From what somebody asks to what would be otherwise in the live state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...core.cluster import Node
from ...core.errors import WhatIfError
from ...core.node_changes import NodeChange
from ...forecasts.state import LiveState

CPUS_PER_GPU, GIB_PER_GPU = 8.0, 64.0  # of nodes unlike any that is here


def without(state: LiveState, names: Sequence[str], machines: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids of nodes that go, by id, the beginning of one, or the machine's name or address.

    Args:
        machines: addresses of machines by node id; they name nodes, too.

    Raises: WhatIfError for one that is none of the cluster.
    """
    found = []
    for name in names:
        ids = [node.id for node in state.nodes if _is_called(node, name, machines)]
        if len(ids) != 1:
            here = ", ".join(sorted(node.machine_name for node in state.nodes)[:4]) or "none"
            many = f"is the name of {len(ids)} nodes" if ids else "is no node of this cluster"
            raise WhatIfError(f"without: {name!r} {many}; its nodes are {here}")
        found.append(ids[0])
    return tuple(dict.fromkeys(found))


def _is_called(node: Node, name: str, machines: Mapping[str, str]) -> bool:
    named = name in (node.id, node.machine_name, machines.get(node.id))
    return named or (len(name) >= 6 and node.id.startswith(name))


def come_and_go(
    state: LiveState, changes: Iterable[NodeChange], gone: Sequence[str] = ()
) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """Return the nodes that come, and the ids of those that go: of each form those with the fewest GPUs in use.

    Args:
        gone: nodes that go already.

    Raises: WhatIfError where there are not so many.
    """
    come: list[Node] = []
    go = list(gone)
    for change in changes:
        if change.count > 0:
            come += [_node(state, change, len(come) + i) for i in range(change.count)]
            continue
        alike = [
            node
            for node in state.nodes
            if (node.gpu_type, node.gpus, node.pool) == (change.gpu_type, change.gpus, change.pool)
            and node.id not in go
        ]
        if len(alike) < -change.count:
            raise WhatIfError(
                f"nodes: {change.text}: the cluster has {len(alike)} such {'node' if len(alike) == 1 else 'nodes'}"
            )
        used = _used(state)
        alike.sort(key=lambda node: (used.get(node.id, 0), node.id))
        go += [node.id for node in alike[: -change.count]]
    return tuple(come), tuple(go)


def _node(state: LiveState, change: NodeChange, number: int) -> Node:
    """Return a node that comes: with CPUs and memory as others of its type have them."""
    like = [node for node in state.nodes if node.gpu_type == change.gpu_type] or list(state.nodes)
    cpus = max((node.cpus / max(node.gpus, 1) for node in like), default=CPUS_PER_GPU)
    memory = max((node.memory_gib / max(node.gpus, 1) for node in like), default=GIB_PER_GPU)
    gpus, id = change.gpus, f"~new-{number:04d}"
    return Node(id, change.gpu_type, gpus, cpus * gpus, memory * gpus, pool=change.pool)


def _used(state: LiveState) -> dict[str, int]:
    found: dict[str, int] = {}
    for job in state.jobs:
        for node, gpus in (job.placement.by_node if job.placement is not None else {}).items():
            found[node] = found.get(node, 0) + gpus
    return found
