"""The one account of who holds which GPUs, CPUs and memory of the nodes.

Nodes are arrays by GPU type in the order of their ids, so that of equal nodes the lowest id comes first. Policies
take numbers of GPUs. A placement may also name GPUs and take a share of each. The ledger counts both.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...core.cluster import Cluster
from ...core.placement import NodeShare, Placement
from ...core.resources import TOLERANCE, Resources, Totals, check_share
from ...core.wording import n_gpus
from ..contract.round import JobView
from .demand import WISH, Demand


class OverCommitted(ValueError):
    """A node has less than a placement asks for. The sentence names job, node and amount."""


NOWHERE = ("", -1)  # type and position of a node that is gone


def is_pinned(job: JobView, cluster: Cluster) -> bool:
    """Return whether a job keeps its GPUs: it is not preemptible, and all it holds still exists as it was."""
    placement = job.placement
    if job.spec.preemptible or placement is None or not placement.shares:
        return False
    return exists(placement, cluster)


def exists(placement: Placement, cluster: Cluster) -> bool:
    """Return whether every node of a placement is there, with its GPU type and that many GPUs."""
    for share in placement.shares:
        node = cluster.by_id.get(share.node_id)
        if node is None or node.gpu_type != placement.gpu_type or node.gpus < share.gpus:
            return False
        if share.devices and max(share.devices) >= node.gpus:
            return False
    return True


@lru_cache(maxsize=4)
def totals_of(cluster: Cluster) -> Mapping[str, Totals]:
    """Return what the nodes of each GPU type have."""
    return {gpu_type: Totals.of(cluster, gpu_type) for gpu_type in cluster.gpu_types}


class Ledger:
    """What jobs hold of a cluster. `take` refuses what is not free, so no node is ever over-committed.

    Args:
        tenants: how many jobs may share one GPU.
    """

    def __init__(self, cluster: Cluster, tenants: int = 1) -> None:
        if tenants < 1:
            raise ValueError(f"tenants: {tenants} jobs on one GPU; 1 or more is accepted")
        self.cluster, self.tenants = cluster, tenants
        self._at, self._nodes, self._total = cluster.positions, cluster.by_type, totals_of(cluster)
        self._idle = {t: total.gpus.copy() for t, total in self._total.items()}  # GPUs that nobody is on
        self._cpus = {t: total.cpus.copy() for t, total in self._total.items()}
        self._memory = {t: total.memory_gib.copy() for t, total in self._total.items()}
        self._left = {t: int(idle.sum()) for t, idle in self._idle.items()}
        self._largest = {t: int(idle.max()) for t, idle in self._idle.items()}
        # node id -> device -> (share that is left, jobs on it), for devices that some job is on.
        self._devices: dict[str, dict[int, tuple[float, int]]] = {}
        self._held: dict[str, Placement] = {}
        self._uneven: set[str] = set()  # types on which a job took more CPUs or memory than its GPUs' part
        self._in_vain: set[tuple[str, int, Demand]] = set()  # what was not found since the last `give_back`

    @classmethod
    def of(cls, cluster: Cluster, held: Mapping[str, Placement], tenants: int = 1) -> Ledger:
        """Return a ledger in which jobs hold these placements.

        A placement is left out if its nodes are gone or too small, or if earlier ones leave it no room.
        """
        ledger = cls(cluster, tenants)
        if not ledger._take_all(held):
            for job, placement in held.items():
                if exists(placement, cluster):
                    with suppress(OverCommitted):
                        ledger.take(job, placement)
        return ledger

    def _take_all(self, held: Mapping[str, Placement]) -> bool:
        """Take whole unnamed GPUs for all jobs at once. Return False, with nothing taken, if that is not enough.

        It is not if a placement names GPUs, has CPUs or memory, or does not fit.
        """
        positions, counts = self._at, {t: idle.tolist() for t, idle in self._idle.items()}
        for placement in held.values():
            gpu_type = placement.gpu_type
            for share in placement.shares:
                kind, at = positions.get(share.node_id, NOWHERE)
                if kind != gpu_type or share.devices or share.cpus or share.memory_gib or share.gpus < 1:
                    return False
                counts[gpu_type][at] -= share.gpus
        left = {t: np.array(idle) for t, idle in counts.items()}
        if any(idle.min() < 0 for idle in left.values()):
            return False
        self._idle, self._held = left, dict(held)
        self._left = {t: int(idle.sum()) for t, idle in left.items()}
        return True

    # --- questions ------------------------------------------------------------------------------------------

    @property
    def held(self) -> Mapping[str, Placement]:
        """What each job holds."""
        return self._held

    def idle(self, gpu_type: str) -> int:
        """Return how many GPUs of a type nobody is on."""
        return self._left.get(gpu_type, 0)

    def idle_on(self, node_id: str) -> int:
        """Return how many GPUs of a node nobody is on. Raises KeyError where the cluster has no such node."""
        gpu_type, at = self._at[node_id]
        return int(self._idle[gpu_type][at])

    def free(self, node_id: str) -> Resources:
        """Return what is free on a node; CPUs and memory are infinite if it states none.

        GPUs taken without names count as the lowest ones that nobody has named.
        """
        gpu_type, at = self._at[node_id]
        named = self._devices.get(node_id, {})
        node = self._nodes[gpu_type][at]
        unnamed = [device for device in range(node.gpus) if device not in named]
        idle = unnamed[len(unnamed) - int(self._idle[gpu_type][at]) :]
        devices = dict.fromkeys(idle, 1.0)
        devices |= {d: left for d, (left, on) in named.items() if left > TOLERANCE and on < self.tenants}
        return Resources(
            dict(sorted(devices.items())),
            max(float(self._cpus[gpu_type][at]), 0.0),
            max(float(self._memory[gpu_type][at]), 0.0),
        )

    def lack(self, share: NodeShare, gpu_type: str) -> str | None:
        """Return why a node cannot give a share now, or None if it can. Raises ValueError for a bad share."""
        kind, at = self._at.get(share.node_id, NOWHERE)
        whole = share.share == 1.0 and not share.devices and type(share.gpus) is int
        amounts = 0 <= share.cpus < math.inf and 0 <= share.memory_gib < math.inf
        if not (whole and amounts) or kind != gpu_type or share.gpus < 1:
            check_share(share, self.cluster.by_id.get(share.node_id), gpu_type)
        named = self._devices.get(share.node_id)
        fresh = share.gpus
        if named:
            for device in share.devices:
                if (taken := named.get(device)) is None:
                    continue
                left, on = taken
                fresh -= 1
                if on >= self.tenants:
                    return f"GPU {device}, on which {on} of {self.tenants} jobs are already"
                if share.share > left + TOLERANCE:
                    return f"{share.share:g} of GPU {device}, of which {max(left, 0):g} is free"
        if fresh > self._idle[gpu_type][at]:
            return f"{n_gpus(share.gpus)}, of which {int(self._idle[gpu_type][at]) + share.gpus - fresh} are free"
        for name, asked, room in (
            ("CPUs", share.cpus, self._cpus),
            ("GiB of memory", share.memory_gib, self._memory),
        ):
            if asked and asked > (free := float(room[gpu_type][at])) + TOLERANCE:
                return f"{asked:g} {name}, of which {max(free, 0.0):g} are free"
        return None

    # --- changes --------------------------------------------------------------------------------------------

    def take(self, job: str, placement: Placement) -> None:
        """Give a job what a placement says, all or nothing.

        Raises: OverCommitted if a node has less; ValueError if the cluster has no such share or the job holds
        something already.
        """
        if job in self._held:
            raise ValueError(f"job {job}: holds GPUs already; it must give them back before it takes others")
        for at, share in enumerate(placement.shares):
            error: ValueError | None = None
            try:
                if (lack := self.lack(share, placement.gpu_type)) is not None:
                    error = OverCommitted(f"job {job} asks node {share.node_id} for {lack}")
            except ValueError as wrong:
                error = ValueError(f"job {job}: {wrong}")
            if error is not None:
                for taken in placement.shares[:at]:
                    self._put_back(taken)
                raise error
            self._take(share)
        self._held[job] = placement

    def give_back(self, job: str) -> Placement:
        """Take back all that a job holds, and return it. Raises KeyError if it holds nothing."""
        placement = self._held.pop(job)
        for share in placement.shares:
            self._put_back(share)
        self._in_vain.clear()
        return placement

    @contextmanager
    def without(self, jobs: Collection[str]) -> Iterator[Ledger]:
        """Let some jobs hold nothing within the block. Afterwards everything is exactly as before."""
        idle = {t: array.copy() for t, array in self._idle.items()}
        cpus = {t: array.copy() for t, array in self._cpus.items()}
        memory = {t: array.copy() for t, array in self._memory.items()}
        left, held = dict(self._left), dict(self._held)
        devices = {node: dict(named) for node, named in self._devices.items()}
        uneven, in_vain = set(self._uneven), set(self._in_vain)
        try:
            for job in jobs:
                if job in self._held:
                    self.give_back(job)
            yield self
        finally:
            self._idle, self._cpus, self._memory = idle, cpus, memory
            self._left, self._held, self._devices = left, held, devices
            self._uneven, self._in_vain = uneven, in_vain

    def _take(self, share: NodeShare) -> None:
        gpu_type, at = self._at[share.node_id]
        fresh = share.gpus
        if share.devices:
            named = self._devices.setdefault(share.node_id, {})
            for device in share.devices:
                left, on = named.get(device, (1.0, 0))
                named[device] = left - share.share, on + 1
                fresh -= on > 0
        self._idle[gpu_type][at] -= fresh
        self._left[gpu_type] -= fresh
        if share.cpus or share.memory_gib:
            self._cpus[gpu_type][at] -= share.cpus
            self._memory[gpu_type][at] -= share.memory_gib
            if gpu_type not in self._uneven:
                total = self._total[gpu_type]
                part = fresh / total.gpus[at] + TOLERANCE  # a second tenant takes of what idle GPUs are due
                if share.cpus > total.cpus[at] * part or share.memory_gib > total.memory_gib[at] * part:
                    self._uneven.add(gpu_type)

    def _put_back(self, share: NodeShare) -> None:
        gpu_type, at = self._at[share.node_id]
        fresh, total = share.gpus, self._total[gpu_type]
        if share.devices:
            named = self._devices[share.node_id]
            for device in share.devices:
                left, on = named[device]
                if on > 1:
                    named[device] = left + share.share, on - 1
                    fresh -= 1
                else:
                    del named[device]
        self._idle[gpu_type][at] += fresh
        self._left[gpu_type] += fresh
        if share.cpus or share.memory_gib:
            self._cpus[gpu_type][at] += share.cpus
            self._memory[gpu_type][at] += share.memory_gib
            if self._idle[gpu_type][at] == total.gpus[at]:  # an idle node is exact again, without rounding errors
                self._cpus[gpu_type][at] = total.cpus[at]
                self._memory[gpu_type][at] = total.memory_gib[at]

    # --- best fit -------------------------------------------------------------------------------------------

    def find(
        self,
        gpus: int,
        gpu_types: Iterable[str] | None = None,
        speed: Mapping[str, float] | None = None,
        demand: Demand = WISH,
    ) -> Placement | None:
        """Return room for so many GPUs of the fastest type that has it, without taking it; None if there is none.

        Whole idle nodes are chosen first, and the fullest node with room for the rest. Types of equal `speed` come
        in the order of their idle GPUs, most first, then by name.
        """
        types = self._nodes if gpu_types is None else [t for t in gpu_types if t in self._nodes]
        fast = speed or {}
        if len(self._nodes) > 1:
            types = sorted(types, key=lambda t: (-fast.get(t, 0.0), -self._left[t], t))
        for t in types:
            if gpus > self._left[t] or (t, gpus, demand) in self._in_vain:
                continue
            found = self._find(t, gpus, demand)
            if found is not None:
                return found
            self._in_vain.add((t, gpus, demand))
        return None

    def _find(self, gpu_type: str, gpus: int, demand: Demand) -> Placement | None:
        idle, size, nodes = self._idle[gpu_type], self._largest[gpu_type], self._nodes[gpu_type]
        whole, rest = divmod(gpus, size)
        shares: list[NodeShare] = []
        left = idle
        if whole:
            at = np.flatnonzero(self._fitting(gpu_type, idle, size, demand) == size)[:whole]
            if len(at) < whole:
                return None
            shares = [NodeShare(nodes[i].id, size, *demand.on(nodes[i], size)) for i in at]
            left = idle.copy()
            left[at] = 0
        if rest:
            left = self._fitting(gpu_type, left, rest, demand)
            room = np.where(left >= rest, left, size + 1)
            best = int(room.argmin())
            if room[best] > size:
                return None
            shares.append(NodeShare(nodes[best].id, rest, *demand.on(nodes[best], rest)))
        return Placement(gpu_type, tuple(shares))

    def _fitting(self, gpu_type: str, idle: NDArray[np.int64], gpus: int, demand: Demand) -> NDArray[np.int64]:
        """Return the idle GPUs of each node; 0 if it lacks the CPUs or memory for so many GPUs."""
        if demand.is_wish and gpu_type not in self._uneven:
            return idle  # each job has at most its GPUs' part, so the rest is enough for the idle GPUs
        total = self._total[gpu_type]
        cpus = demand.cpus_beside(total.cpus / total.gpus)
        lacks = gpus * cpus > self._cpus[gpu_type] + TOLERANCE
        lacks |= gpus * demand.least_memory_gib > self._memory[gpu_type] + TOLERANCE
        return np.where(lacks, 0, idle)
