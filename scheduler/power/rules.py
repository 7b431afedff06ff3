"""Which machines may be powered off, and which one replaces one that failed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ...core.cluster import Cluster, Node
from ...core.power_settings import PowerSettings
from .machine import ASLEEP, FAILED, LEAVING, ON, Machine


@dataclass(frozen=True)
class Seen:
    """What is seen of the cluster at a moment.

    cluster: nodes that jobs may be placed on, also those of machines that leave.
    alive: living GPU nodes, leased or not, by machine name.
    homes: nodes on the machines of the head and of the service.
    busy: what of ours is on a node, by its id; a node without anything is absent.
    """

    cluster: Cluster
    alive: Mapping[str, tuple[str, ...]]
    homes: Collection[str] = ()
    busy: Mapping[str, str] = field(default_factory=dict)

    def usable(self, machine: str) -> Node | None:
        """Return the node of a machine that jobs may be placed on, if it is the only one of that name."""
        ids = self.alive.get(machine, ())
        return self.cluster.by_id.get(ids[0]) if len(ids) == 1 else None


def why_not_asleep(
    machine: Machine, seen: Seen, machines: Mapping[str, Machine], settings: PowerSettings, now: float
) -> str | None:
    """Return why a machine may not be powered off, as part of a sentence; None: it may be.

    Args:
        machines: those that are stored, by name, as they are after earlier decisions of this moment.
    """
    if machine.state is not ON:
        return "it has failed" if machine.state is FAILED else f"it is {machine.state.value}"
    ids = seen.alive.get(machine.name, ())
    if len(ids) > 1:
        return f"{len(ids)} nodes have this machine name; the label coadapt.io/machine gives each its own"
    node = seen.usable(machine.name)
    if node is None:
        return "its node takes no jobs now"
    if not node.machine:
        return "its node has neither a host name nor the label coadapt.io/machine, by which it could be woken"
    if node.id in seen.homes:
        return "the head or the scheduler runs there"
    if machine.keep:
        return "`coadapt node keep` keeps it on"
    if node.id in seen.busy:
        return seen.busy[node.id]
    if not settings.sleeps(node.gpu_type):
        return f"machines of type {node.gpu_type} never sleep, as `types` of the power file says"
    kept = settings.kept(node.gpu_type)
    on = sum(1 for other in seen.cluster.of_type(node.gpu_type) if _is_on(other, machines))
    if on <= kept:
        return f"the last {kept} {node.gpu_type} nodes stay on, as `keep` says"
    if now < machine.rest_until_s:
        return f"it is left alone for a while: {machine.reason}"
    return None


def instead_of(
    machine: Machine,
    taken: Collection[str],
    seen: Seen,
    machines: Mapping[str, Machine],
    settings: PowerSettings,
    now: float,
) -> Machine | None:
    """Return a machine to power off in place of one that is idle and stays on all the same; None: there is none.

    It is of the same pool and GPU type. `taken`: machines that are spoken of already.
    """
    node = seen.usable(machine.name)
    if node is None or node.id in seen.busy:
        return None
    for other in seen.cluster.of_type(node.gpu_type):
        name = other.machine_name
        if name in taken or other.pool != node.pool:
            continue
        found = replace(machines.get(name) or Machine(name, other), node=other)
        if why_not_asleep(found, seen, machines, settings, now) is None:
            return found
    return None


def _is_on(node: Node, machines: Mapping[str, Machine]) -> bool:
    machine = machines.get(node.machine_name)
    return machine is None or machine.state is not LEAVING


def substitute(failed: Machine, machines: Iterable[Machine]) -> Machine | None:
    """Return the machine to wake in place of one that did not come back; None: there is no other.

    It is of the same pool and GPU type. One with as many GPUs comes first, then one with more.
    """
    node = failed.node
    others = [
        other
        for other in machines
        if other.state is ASLEEP and (other.node.pool, other.node.gpu_type) == (node.pool, node.gpu_type)
    ]
    return min(others, key=lambda other: (_misfit(other.node.gpus, node.gpus), other.name), default=None)


def _misfit(gpus: int, wanted: int) -> tuple[bool, int]:
    return gpus < wanted, abs(gpus - wanted)


def awaited(machines: Iterable[Machine]) -> list[Machine]:
    """Return the machines whose nodes are not there and jobs may wait for, by name."""
    return sorted((one for one in machines if one.state.is_awaited), key=lambda one: one.name)
