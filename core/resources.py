"""An amount of what nodes have: shares of GPUs by device, CPUs and memory. Its arithmetic lives here only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from .cluster import Cluster, Node
from .placement import NodeShare, Placement
from .slot import Slot

# Sums of shares, CPUs and memory are compared with this slack: thirds of a GPU add up to one.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Resources:
    """An amount on one node. `devices`: device index -> share of that GPU.

    A difference may hold amounts below 0: they are what is owed. A device of share 0 is not listed.
    """

    devices: Mapping[int, float] = field(default_factory=dict)
    cpus: float = 0.0
    memory_gib: float = 0.0

    @classmethod
    def of_node(cls, node: Node) -> Resources:
        """Return all of a node. A node that states no CPUs or no memory has infinitely many of them."""
        return cls(dict.fromkeys(range(node.gpus), 1.0), node.cpus or np.inf, node.memory_gib or np.inf)

    @classmethod
    def of_share(cls, share: NodeShare) -> Resources:
        """Return what a job holds of one node. The share must name its devices."""
        return cls(dict.fromkeys(share.devices, share.share), share.cpus, share.memory_gib)

    @classmethod
    def of_slot(cls, slot: Slot) -> Resources:
        """Return what a worker is given in its slot."""
        return cls(dict.fromkeys(slot.devices, slot.share), slot.cpus, slot.memory_gib)

    @property
    def gpus(self) -> float:
        """Return the sum of the shares."""
        return sum(self.devices.values())

    def __add__(self, other: Resources) -> Resources:
        return self._combined(other, 1.0)

    def __sub__(self, other: Resources) -> Resources:
        return self._combined(other, -1.0)

    def _combined(self, other: Resources, sign: float) -> Resources:
        devices = dict(self.devices)
        for device, share in other.devices.items():
            left = devices.get(device, 0.0) + sign * share
            if abs(left) > TOLERANCE:
                devices[device] = left
            else:
                devices.pop(device, None)
        return Resources(devices, self.cpus + sign * other.cpus, self.memory_gib + sign * other.memory_gib)

    def scaled(self, factor: float) -> Resources:
        """Return `factor` times this amount."""
        devices = {device: share * factor for device, share in self.devices.items() if share * factor}
        return Resources(devices, self.cpus * factor, self.memory_gib * factor)

    def beyond(self, other: Resources) -> Resources:
        """Return what this amount has more of than another: a difference without what is below 0."""
        more = self - other
        cpus, memory_gib = (left if left > TOLERANCE else 0.0 for left in (more.cpus, more.memory_gib))
        return Resources({at: share for at, share in more.devices.items() if share > 0}, cpus, memory_gib)

    def fits(self, room: Resources) -> bool:
        """Return whether `room` has this amount. What this amount has none of does not matter."""
        return self.short(room) == ([], False)

    def short(self, room: Resources) -> tuple[list[int], bool]:
        """Return the devices of which `room` has too little, and whether it lacks CPUs or memory."""
        free = room.devices
        devices = [at for at, share in self.devices.items() if share > max(free.get(at, 0.0), 0.0) + TOLERANCE]
        return devices, not (
            self.cpus <= max(room.cpus, 0.0) + TOLERANCE
            and self.memory_gib <= max(room.memory_gib, 0.0) + TOLERANCE
        )

    def lack(self, room: Resources) -> str | None:
        """Return what `room` has too little of, in words with both amounts; None: this amount fits."""
        for device, share in self.devices.items():
            if share > max(free := room.devices.get(device, 0.0), 0.0) + TOLERANCE:
                return f"{share:g} of GPU {device}, of which {_rounded(free)} is free"
        for name, asked, free in (
            ("CPUs", self.cpus, room.cpus),
            ("GiB of memory", self.memory_gib, room.memory_gib),
        ):
            if asked > max(free, 0.0) + TOLERANCE:
                return f"{asked:g} {name}, of which {_rounded(free)} are free"
        return None


def _rounded(amount: float) -> str:
    return f"{max(round(amount, 6), 0.0):g}"


Amounts = Mapping[str, Resources]  # node id -> what is held, asked for or free there
NOTHING = Resources()
OTHERWISE = -1  # in place of a GPU: the CPUs or the memory of a node


def add(to: dict[str, Resources], amounts: Amounts, times: float = 1.0) -> None:
    """Add `times` the amounts of nodes to others."""
    for node, amount in amounts.items():
        to[node] = to.get(node, NOTHING) + (amount if times == 1.0 else amount.scaled(times))


def short_of(needs: Amounts, free: Amounts) -> set[tuple[str, int]]:
    """Return what of the needs is not free, as (node id, GPU) or (node id, OTHERWISE)."""
    short: set[tuple[str, int]] = set()
    for node, amount in needs.items():
        devices, otherwise = amount.short(free.get(node, NOTHING))
        short.update((node, device) for device in devices)
        if otherwise:
            short.add((node, OTHERWISE))
    return short


@dataclass(frozen=True)
class Totals:
    """What the nodes of one GPU type have, as arrays in the order of `Cluster.of_type`; each is (nodes,).

    A node that states no CPUs or no memory has infinitely many.
    """

    gpus: NDArray[np.int64]
    cpus: NDArray[np.float64]
    memory_gib: NDArray[np.float64]

    @classmethod
    def of(cls, cluster: Cluster, gpu_type: str) -> Totals:
        nodes = cluster.of_type(gpu_type)
        return cls(
            np.array([node.gpus for node in nodes], np.int64),
            np.array([node.cpus or np.inf for node in nodes], float),
            np.array([node.memory_gib or np.inf for node in nodes], float),
        )


def idle_gpus(cluster: Cluster, held: Iterable[Placement]) -> dict[str, int]:
    """Return how many GPUs of each type nobody is on. A GPU that several jobs share counts once.

    `held`: what jobs hold. GPU types that the cluster lacks are left out.
    """
    idle, named = cluster.capacity(), set[tuple[str, int]]()
    for placement in held:
        if placement.gpu_type not in idle:
            continue
        for share in placement.shares:
            before = len(named)
            named.update((share.node_id, device) for device in share.devices)
            idle[placement.gpu_type] -= len(named) - before if share.devices else share.gpus
    return idle


def check_share(share: NodeShare, node: Node | None, gpu_type: str) -> None:
    """Raise ValueError, one sentence, where a node cannot give what a share says even if it were empty."""
    where = f"node {share.node_id}"
    if node is None or node.gpu_type != gpu_type:
        raise ValueError(f"node_id: {share.node_id} is no node with {gpu_type} GPUs")
    if not isinstance(share.gpus, Integral) or not 1 <= share.gpus <= node.gpus:
        raise ValueError(f"gpus: {share.gpus} on {where}, which has {node.gpus}; 1 to {node.gpus} are accepted")
    if not 0 < share.share <= 1:
        raise ValueError(f"share: {share.share:g} of each GPU on {where}; more than 0 and at most 1 is accepted")
    for name, amount in (("cpus", share.cpus), ("memory_gib", share.memory_gib)):
        if not 0 <= amount < np.inf:
            raise ValueError(f"{name}: {amount:g} on {where}; a number of 0 or more is accepted")
    if not share.devices:
        if share.share < 1:
            raise ValueError(f"devices: none named on {where}; a share of {share.share:g} needs the GPUs it is of")
        return
    if len(share.devices) != share.gpus:
        raise ValueError(
            f"devices: {len(share.devices)} named on {where}; as many as its {share.gpus} GPUs are accepted"
        )
    for at, device in enumerate(share.devices):
        if not isinstance(device, Integral) or not 0 <= device < node.gpus:
            raise ValueError(f"devices: {device} on {where}; 0 to {node.gpus - 1} are accepted")
        if device in share.devices[:at]:
            raise ValueError(f"devices: {device} twice on {where}; each GPU is accepted once")
