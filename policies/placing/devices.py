"""Names the GPUs of placements.

Policies choose numbers of GPUs. GPUs get names once, when a placement is about to be applied. A job that keeps
GPUs on a node keeps the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ...core.cluster import Cluster
from ...core.placement import NodeShare, Placement
from ...core.resources import check_share
from ...core.wording import n_gpus
from .ledger import Ledger

Held = Mapping[str, Mapping[str, Sequence[int]]]  # job id -> node id -> devices; those to keep first come first


@dataclass(frozen=True)
class NamedPlacements:
    """Placements whose shares all name their devices. `refused` says for other jobs why there are no names."""

    placements: Mapping[str, Placement]
    refused: Mapping[str, str]


def name_devices(
    placements: Mapping[str, Placement], held: Held, cluster: Cluster, tenants: int = 1
) -> NamedPlacements:
    """Name the devices of every placement, with at most `tenants` jobs on one GPU.

    A share that names its devices stays as it is. Any other job keeps the GPUs it holds. Then it gets GPUs that
    nobody is on, then those that others are to leave, lowest index first. Jobs are served in order of their ids,
    after those with names.

    A placement is refused if a node lacks the GPUs or is not in the cluster. CPUs and memory are not checked.

    Args:
        held: all GPUs that something lives on now, also of jobs without a placement.
    """
    names = _Names(held, cluster, tenants)
    named = [job for job in placements if _is_named(placements[job])]
    for job in (*named, *sorted(placements.keys() - set(named))):
        names.reserve(job, placements[job])
    for job in list(names.reserved):
        names.complete(job, placements[job])
    return NamedPlacements(names.found, names.refused)


def _is_named(placement: Placement) -> bool:
    return all(share.devices for share in placement.shares)


@lru_cache(maxsize=4)
def gpus_only(cluster: Cluster) -> Cluster:
    """Return the same nodes without stated CPUs and memory, so that these never run short."""
    return Cluster(tuple(replace(node, cpus=0.0, memory_gib=0.0) for node in cluster.nodes))


class _Names:
    """The names that one call has given so far."""

    def __init__(self, held: Held, cluster: Cluster, tenants: int) -> None:
        self._held = held
        self._ledger = Ledger(gpus_only(cluster), tenants)
        self._occupied = {
            (node, device) for nodes in held.values() for node, devices in nodes.items() for device in devices
        }
        self._free: dict[str, list[int]] = {}  # node -> whole GPUs to give, in the order of giving
        self.found: dict[str, Placement] = {}
        self.refused: dict[str, str] = {}
        self.reserved: dict[str, dict[str, tuple[int, ...]]] = {}  # job -> node -> devices that it keeps

    def reserve(self, job: str, placement: Placement) -> None:
        """Take the GPUs that a placement names, or those that the job holds and keeps."""
        if _is_named(placement):
            self._take(job, placement)
            return
        cluster, kept = self._ledger.cluster, dict[str, tuple[int, ...]]()
        try:
            for share in placement.shares:
                check_share(share, cluster.by_id.get(share.node_id), placement.gpu_type)
        except ValueError as error:
            self.refused[job] = f"job {job}: {error}"
            return
        for share in placement.shares:
            if not share.devices:
                free = self._free_on(share.node_id)
                held = self._held.get(job, {}).get(share.node_id, ())
                kept[share.node_id] = tuple(device for device in held if device in free)[: share.gpus]
                for device in kept[share.node_id]:
                    free.remove(device)
        self.reserved[job] = kept

    def complete(self, job: str, placement: Placement) -> None:
        """Name the rest of a placement. If a node has too few GPUs, all GPUs of the job are free again."""
        reserved, shares = self.reserved[job], list[NodeShare]()
        for share in placement.shares:
            devices: Sequence[int] = share.devices
            if not devices:
                free, kept = self._free_on(share.node_id), reserved[share.node_id]
                more = free[: share.gpus - len(kept)]
                del free[: len(more)]
                devices = reserved[share.node_id] = (*kept, *more)
                if len(devices) < share.gpus:
                    lack = f"{n_gpus(share.gpus)}, of which {len(devices)} are free"
                    self.refused[job] = f"job {job} asks node {share.node_id} for {lack}"
            shares.append(replace(share, devices=tuple(sorted(devices))))
        if job in self.refused or not self._take(job, Placement(placement.gpu_type, tuple(shares))):
            for node, devices in reserved.items():
                self._free[node] = self._in_order(node, {*self._free[node], *devices})

    def _take(self, job: str, placement: Placement) -> bool:
        try:
            self._ledger.take(job, placement)
        except ValueError as error:
            self.refused[job] = str(error)
            return False
        self.found[job] = placement
        return True

    def _free_on(self, node: str) -> list[int]:
        """Return the whole GPUs of a node that can still be given, as a list that the caller changes."""
        if node not in self._free:
            whole = [device for device, share in self._ledger.free(node).devices.items() if share == 1.0]
            self._free[node] = self._in_order(node, whole)
        return self._free[node]

    def _in_order(self, node: str, devices: Iterable[int]) -> list[int]:
        return sorted(devices, key=lambda device: ((node, device) in self._occupied, device))
