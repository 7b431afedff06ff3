"""Nodes as jobs may use them: without those of machines that leave, and with those that sleep kept in mind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ...core.cluster import Cluster
from ...core.sleeping import SleepingNode
from ..power.machine import LEAVING, WAKING, Machine
from ..power.rules import Seen, awaited
from .node_source import NodeSource
from .node_view import NodesSnapshot


class PoweredNodes:
    """A source of nodes over another one. A machine that was just told to leave is out of the next snapshot.

    Args:
        machines: returns the machines that power knows, by name; another mapping whenever something has changed.
        boot_s: how long a node takes to come back.
    """

    def __init__(self, nodes: NodeSource, machines: Callable[[], Mapping[str, Machine]], boot_s: float) -> None:
        self._nodes, self._machines, self._boot_s = nodes, machines, boot_s
        self._made: tuple[NodesSnapshot, Mapping[str, Machine], NodesSnapshot] | None = None

    @property
    def snapshot(self) -> NodesSnapshot:
        """Return the newest snapshot. Equal nodes make the same cluster object, as policies cache by it."""
        nodes, machines, made = self._nodes.snapshot, self._machines(), self._made
        if made is not None and made[0] is nodes and made[1] is machines:
            return made[2]
        found = with_power(nodes, machines, self._boot_s)
        if made is not None and found.cluster == made[2].cluster:
            found = replace(found, cluster=made[2].cluster)
        self._made = nodes, machines, found
        return found


def with_power(nodes: NodesSnapshot, machines: Mapping[str, Machine], boot_s: float) -> NodesSnapshot:
    """Return nodes without those of machines that leave, and with those that are away but awaited."""
    if not machines:
        return nodes
    leaving = {name for name, machine in machines.items() if machine.state is LEAVING}
    here = tuple(node for node in nodes.cluster.nodes if node.machine_name not in leaving)
    there = {node.machine_name for node in here}
    return replace(
        nodes,
        cluster=nodes.cluster if len(here) == len(nodes.cluster.nodes) else Cluster(here),
        asleep=tuple(
            SleepingNode(machine.node, machine.state is WAKING, boot_s)
            for machine in awaited(machines.values())
            if machine.name not in there and machine.name not in nodes.closed_machines
        ),
    )


def seen_of(nodes: NodesSnapshot, busy: Mapping[str, str]) -> Seen:
    """Return what power is to know of nodes. `busy`: what is on each node, by its id."""
    alive: dict[str, tuple[str, ...]] = {}
    for node_id, machine in sorted(nodes.machines.items()):
        alive[machine] = (*alive.get(machine, ()), node_id)
    cluster = Cluster((*nodes.cluster.nodes, *nodes.closed_nodes)) if nodes.closed_nodes else nodes.cluster
    return Seen(cluster, alive, nodes.homes, busy)
