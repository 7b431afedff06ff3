"""Where a fixed number of GPUs goes on few nodes: best fit within one node, whole idle nodes beyond."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .cluster import Cluster
from .placement import NodeShare, Placement


class FreeGpus:
    """Free GPUs of each node, by GPU type; the first of equal nodes is taken, in order of their ids."""

    def __init__(self, cluster: Cluster, held: Iterable[Placement] = ()) -> None:
        self._nodes = {t: cluster.of_type(t) for t in cluster.gpu_types}
        self._sizes = {t: np.array([node.gpus for node in nodes]) for t, nodes in self._nodes.items()}
        self._free = {t: sizes.copy() for t, sizes in self._sizes.items()}
        self._at = {node.id: (t, i) for t, nodes in self._nodes.items() for i, node in enumerate(nodes)}
        self.total = sum(int(sizes.sum()) for sizes in self._sizes.values())
        for placement in held:
            self.take(placement)

    def of_type(self, gpu_type: str) -> int:
        return int(self._free[gpu_type].sum()) if gpu_type in self._free else 0

    def take(self, placement: Placement) -> None:
        for share in placement.shares:
            t, i = self._at[share.node_id]
            self._free[t][i] -= share.gpus

    def give_back(self, placement: Placement) -> None:
        for share in placement.shares:
            t, i = self._at[share.node_id]
            self._free[t][i] += share.gpus

    def find(self, gpus: int, gpu_types: Iterable[str] | None = None) -> Placement | None:
        """Room for so many GPUs of one type, without taking it: of the type with most free ones that has it."""
        types = self._nodes if gpu_types is None else [t for t in gpu_types if t in self._nodes]
        for t in sorted(types, key=lambda t: (-int(self._free[t].sum()), t)) if len(self._nodes) > 1 else types:
            found = self._find(t, gpus)
            if found is not None:
                return found
        return None

    def _find(self, gpu_type: str, gpus: int) -> Placement | None:
        free, sizes, nodes = self._free[gpu_type], self._sizes[gpu_type], self._nodes[gpu_type]
        if gpus > free.sum():
            return None
        size = int(sizes.max())
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
