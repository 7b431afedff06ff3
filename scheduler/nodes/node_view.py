"""The one adapter to Ray's view of nodes: which there are, what they have, and our lease on each.

A thread asks Ray every second or so. Everyone else reads the newest snapshot and never waits for Ray's control
plane. One detached placement group per GPU node leases the whole node. So a job is resized by starting and ending
single actors, and no other Ray application takes GPUs in between.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ray
from ray.util import get_placement_group, placement_group, remove_placement_group
from ray.util.placement_group import PlacementGroup

from ...core.cluster import Cluster, Node
from ...core.sleeping import SleepingNode
from ..runtime import ray_private
from .closures import Closed

log = logging.getLogger(__name__)

GPU_TYPE_LABEL = "coadapt.io/gpu-type"
POOL_LABEL = "coadapt.io/pool"
MACHINE_LABEL = "coadapt.io/machine"
NODE_TYPE_LABEL = "coadapt.io/node-type"  # which type of the scaling settings a node is of
EMULATED_LABEL = "coadapt.io/emulated"
CPUS_LABEL, MEMORY_LABEL = "coadapt.io/cpus", "coadapt.io/memory-gib"  # of an emulated node, where it states them
ACCELERATOR_LABEL = "ray.io/accelerator-type"
HEAD_RESOURCE = "node:__internal_head__"
GIB = 2**30
FIRST_LOOK_S, LOOK_S = 5.0, 0.2


@dataclass(frozen=True)
class NodesSnapshot:
    """The leased nodes that take new work, and what else is known of the cluster."""

    cluster: Cluster = field(default_factory=lambda: Cluster(()))
    leases: Mapping[str, str] = field(default_factory=dict)  # node id -> placement group id
    alive: frozenset[str] = frozenset()  # every living node, leased or not, draining or not
    draining: frozenset[str] = frozenset()  # nodes that what runs there has to leave
    closed: Mapping[str, Closed] = field(default_factory=dict)  # node id -> why it takes no new work
    closed_nodes: tuple[Node, ...] = ()  # leased nodes that are here and take no new work
    closed_machines: frozenset[str] = frozenset()  # machines that an operator keeps closed, here or not
    drained_by_ray: Mapping[str, float | None] = field(default_factory=dict)  # until when, by the wall clock
    names: Mapping[str, str] = field(default_factory=dict)  # node id -> address, for people
    ready: bool = False  # Ray has answered at least once
    machines: Mapping[str, str] = field(default_factory=dict)  # living GPU node, leased or not -> its machine
    homes: frozenset[str] = frozenset()  # GPU nodes on the machines of the head and of the service
    node_types: Mapping[str, str] = field(default_factory=dict)  # living GPU node -> its node type, if it has one
    asleep: tuple[SleepingNode, ...] = ()  # powered off or not bought yet, about to be, or on their way

    @property
    def left_by_executors(self) -> frozenset[str]:
        """The nodes on which no executor may stay; where the service itself is, there is no other place."""
        return self.draining - self.homes

    def differ_from(self, before: NodesSnapshot) -> bool:
        """Return whether nodes have come, gone, been closed or opened, fallen asleep or begun to wake since."""
        now = self.cluster, self.alive, self.ready, self.asleep, self.closed
        return now != (before.cluster, before.alive, before.ready, before.asleep, before.closed)


def node_of(row: Mapping[str, Any]) -> Node | None:
    """Return the GPU node of one row of `ray.nodes()`; None without GPUs or a GPU type."""
    labels, resources = row.get("Labels", {}), row.get("Resources", {})
    gpus = int(resources.get("GPU", 0))
    gpu_type = labels.get(GPU_TYPE_LABEL) or labels.get(ACCELERATOR_LABEL, "").lower()
    if not row.get("Alive") or not gpus or not gpu_type:
        return None
    return Node(
        id=row["NodeID"],
        gpu_type=gpu_type,
        gpus=gpus,
        cpus=float(resources.get("CPU", 0)),
        memory_gib=float(resources.get("memory", 0)) / GIB,
        emulated=_is_emulated(labels),
        pool=labels.get(POOL_LABEL, ""),
        machine=labels.get(MACHINE_LABEL) or row.get("NodeManagerHostname", ""),
    )


def _is_emulated(labels: Mapping[str, str]) -> bool:
    return labels.get(EMULATED_LABEL, "").lower() == "true"


def homes_of(rows: Iterable[Mapping[str, Any]], service: str) -> frozenset[str]:
    """Return the nodes on the machines of the head and of the node `service`; an emulated node is a machine."""
    rows = list(rows)
    own = {row["NodeID"] for row in rows if HEAD_RESOURCE in row.get("Resources", {})} | {service}
    there = {row.get("NodeManagerAddress") for row in rows if row["NodeID"] in own}
    return frozenset(
        row["NodeID"]
        for row in rows
        if row["NodeID"] in own
        or (row.get("NodeManagerAddress") in there and not _is_emulated(row.get("Labels", {})))
    )


def lease_name(node_id: str) -> str:
    return f"coadapt-lease-{node_id}"


class NodeView:
    """Keeps `snapshot` and the leases up to date, and calls `changed` when nodes come, go or drain.

    Its snapshots have all leased nodes. `ClosingNodes` leaves those out that take no new work.

    Args:
        spare_cpus: CPUs of each node that stay outside the lease (never more than half of them).
        unleased: returns machines and ids of nodes that must not be leased now.
    """

    def __init__(
        self,
        refresh_s: float,
        spare_cpus: float,
        changed: Callable[[], None],
        unleased: Callable[[], Container[str]] = tuple,
    ) -> None:
        self.refresh_s = refresh_s
        self._spare_cpus = spare_cpus
        self._changed = changed
        self._unleased = unleased
        self._leases: dict[str, PlacementGroup] = {}
        self._standing: set[str] = set()  # nodes whose lease was granted; a lease lasts as long as its node
        self._here = ray.get_runtime_context().get_node_id()
        self._stop = threading.Event()
        self.snapshot = NodesSnapshot()
        self._thread = threading.Thread(target=self._watch, name="nodes", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, drop_leases: bool) -> None:
        self._stop.set()
        self._thread.join(timeout=10)
        if drop_leases:
            for lease in self._leases.values():
                remove_placement_group(lease)
            self._leases.clear()

    def _watch(self) -> None:
        while not self._stop.is_set():
            try:
                self.refresh()
            except Exception:
                # The control plane is away or restarting: the old snapshot stays until the next look.
                log.exception("nodes: Ray did not answer")
            self._stop.wait(self.refresh_s)

    def refresh(self) -> None:
        """Look once: lease new nodes, drop the leases of dead ones, publish the snapshot."""
        rows = [row for row in ray.nodes() if row.get("Alive")]
        draining = _drained_by_ray()
        nodes = [node for row in rows if (node := node_of(row)) is not None]
        unleased = self._unleased()
        to_lease = [node for node in nodes if node.machine_name not in unleased and node.id not in unleased]
        labels = {row["NodeID"]: row.get("Labels", {}) for row in rows}
        leased = [self._leased(node, labels[node.id]) for node in to_lease if self._lease(node)]
        for gone in set(self._leases) - {node.id for node in to_lease}:
            remove_placement_group(self._leases.pop(gone))
            self._standing.discard(gone)
        before = self.snapshot
        found = Cluster(tuple(leased))
        self.snapshot = NodesSnapshot(
            # The object stays the same while the nodes do, as policies cache by its identity.
            cluster=before.cluster if found == before.cluster else found,
            leases={node.id: self._leases[node.id].id.hex() for node in leased},
            alive=frozenset(row["NodeID"] for row in rows),
            drained_by_ray=draining,
            names={row["NodeID"]: row.get("NodeManagerAddress", "") for row in rows},
            ready=True,
            machines={node.id: node.machine_name for node in nodes},
            homes=homes_of(rows, self._here) & {node.id for node in nodes},
            node_types={
                row["NodeID"]: row["Labels"][NODE_TYPE_LABEL]
                for row in rows
                if NODE_TYPE_LABEL in row.get("Labels", {})
            },
        )
        seen = self.snapshot.cluster, self.snapshot.alive, self.snapshot.drained_by_ray
        if seen != (before.cluster, before.alive, before.drained_by_ray) or not before.ready:
            self._changed()

    def _lease_cpus(self, node: Node) -> float:
        return max(node.cpus - min(self._spare_cpus, node.cpus / 2), 0.0)

    def _leased(self, node: Node, labels: Mapping[str, str]) -> Node:
        """Return the node as jobs see it: with the CPUs of its lease, or those that are emulated."""
        if node.emulated and CPUS_LABEL in labels:
            return replace(node, cpus=float(labels[CPUS_LABEL]), memory_gib=float(labels[MEMORY_LABEL]))
        return replace(node, cpus=self._lease_cpus(node))

    def _lease(self, node: Node) -> bool:
        """Return whether the node's lease is granted. Ask for the lease if there is none."""
        if node.id not in self._leases:
            self._leases[node.id] = self._find_lease(node) or self._new_lease(node)
        # No round begins before the first look is done. Leases take a moment to be found again after a restart.
        # Without that patience the service would take nodes for missing and stop the jobs on them.
        patience_s = LOOK_S if self.snapshot.ready else FIRST_LOOK_S
        if node.id not in self._standing and self._leases[node.id].wait(timeout_seconds=patience_s):
            self._standing.add(node.id)
        return node.id in self._standing

    def _find_lease(self, node: Node) -> PlacementGroup | None:
        """Return the lease that an earlier life of the service took, or None."""
        try:
            return get_placement_group(lease_name(node.id))
        except ValueError:
            return None

    def _new_lease(self, node: Node) -> PlacementGroup:
        bundle = {"GPU": float(node.gpus), "CPU": self._lease_cpus(node)}
        return placement_group(
            [{name: amount for name, amount in bundle.items() if amount > 0}],
            strategy="STRICT_PACK",
            bundle_label_selector=[{"ray.io/node-id": node.id}],
            lifetime="detached",
            name=lease_name(node.id),
        )


def _drained_by_ray() -> dict[str, float | None]:
    """Return the nodes that Ray drains; none where this version of Ray does not tell."""
    try:
        return ray_private.draining_nodes()
    except AttributeError:
        return {}
