"""Where a fixed number of GPUs goes on few nodes: best fit within one node, whole idle nodes beyond."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...core.cluster import Cluster
from ...core.placement import NodeShare, Placement
from ..contract.round import JobView


class FreeGpus:
    """Free GPUs of each node, by GPU type; the first of equal nodes is taken, in order of their ids."""

    def __init__(self, cluster: Cluster, held: Iterable[Placement] = ()) -> None:
        self._nodes = cluster.by_type
        self._free = {t: np.array([node.gpus for node in nodes]) for t, nodes in self._nodes.items()}
        self._largest = {t: int(free.max()) for t, free in self._free.items()}
        self._left = {t: int(free.sum()) for t, free in self._free.items()}
        self._at = cluster.positions
        self.total = sum(self._left.values())
        self._no_room: set[tuple[str, int]] = set()  # GPU type and count that were sought in vain
        for placement in held:
            self.take(placement)

    def of_type(self, gpu_type: str) -> int:
        return self._left.get(gpu_type, 0)

    def take(self, placement: Placement) -> None:
        for share in placement.shares:
            t, i = self._at[share.node_id]
            self._free[t][i] -= share.gpus
            self._left[t] -= share.gpus

    def give_back(self, placement: Placement) -> None:
        for share in placement.shares:
            t, i = self._at[share.node_id]
            self._free[t][i] += share.gpus
            self._left[t] += share.gpus
        self._no_room.clear()

    def find(
        self, gpus: int, gpu_types: Iterable[str] | None = None, speed: Mapping[str, float] | None = None
    ) -> Placement | None:
        """Room for so many GPUs of one type, without taking it: of the fastest type that has it.

        Of types of equal `speed`, and of all without it, the one with most free GPUs comes first, then by name.
        """
        types = self._nodes if gpu_types is None else [t for t in gpu_types if t in self._nodes]
        fast = speed or {}
        if len(self._nodes) > 1:
            types = sorted(types, key=lambda t: (-fast.get(t, 0.0), -self._left[t], t))
        for t in types:
            if gpus > self._left[t] or (t, gpus) in self._no_room:
                continue
            found = self._find(t, gpus)
            if found is not None:
                return found
            self._no_room.add((t, gpus))
        return None

    def _find(self, gpu_type: str, gpus: int) -> Placement | None:
        free, size, nodes = self._free[gpu_type], self._largest[gpu_type], self._nodes[gpu_type]
        whole, rest = divmod(gpus, size)
        shares: list[NodeShare] = []
        left = free
        if whole:
            idle = np.flatnonzero(free == size)[:whole]
            if len(idle) < whole:
                return None
            shares = [NodeShare(nodes[i].id, size) for i in idle]
            left = free.copy()
            left[idle] = 0
        if rest:
            room = np.where(left >= rest, left, size + 1)
            best = int(room.argmin())
            if room[best] > size:
                return None
            shares.append(NodeShare(nodes[best].id, rest))
        return Placement(gpu_type, tuple(shares))


def stays(job: JobView, cluster: Cluster) -> bool:
    """Whether the job runs and may not be stopped."""
    return not job.spec.preemptible and job.placement is not None and _exists(job.placement, cluster)


def _exists(placement: Placement, cluster: Cluster) -> bool:
    return all(share.node_id in cluster.by_id for share in placement.shares)


def place_on_types(cluster: Cluster, chosen: Mapping[str, Sequence[tuple[JobView, int]]]) -> dict[str, Placement]:
    """Who stays on its GPU type keeps its GPUs; the others go where there is room, largest first.

    Where small jobs lie so that a large one finds no room, all of that type are placed anew.
    """
    placements: dict[str, Placement] = {}
    for gpu_type, jobs in chosen.items():
        kept = {
            job.id: job.placement
            for job, gpus in jobs
            if job.placement is not None
            and job.placement.gpu_type == gpu_type
            and job.placement.gpus == gpus
            and _exists(job.placement, cluster)
        }
        found, complete = _fill(cluster, gpu_type, jobs, kept)
        if not complete:
            pinned = {job.id: kept[job.id] for job, _ in jobs if stays(job, cluster)}
            anew, complete = _fill(cluster, gpu_type, jobs, pinned)
            if len(anew) > len(found):
                found = anew
        placements |= found
    return placements


def _fill(
    cluster: Cluster, gpu_type: str, jobs: Sequence[tuple[JobView, int]], kept: Mapping[str, Placement]
) -> tuple[dict[str, Placement], bool]:
    placements = dict(kept)
    free = FreeGpus(cluster, kept.values())
    complete = True
    for job, gpus in sorted(jobs, key=lambda pair: -pair[1]):
        if job.id in placements:
            continue
        room = free.find(gpus, (gpu_type,))
        if room is None:
            complete = False
            continue
        free.take(room)
        placements[job.id] = room
    return placements, complete
