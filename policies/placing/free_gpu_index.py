"""Free GPUs of the nodes of one type: who fits where, and whose leaving makes room with the fewest moves.

Nodes are positions in the order of their ids, so that the lowest position is the lowest id. All is found through
heaps whose entries may be out of date and are then skipped: neither a change nor a question costs more
where there are more nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from ..contract.configuration import block


class Rooms:
    """Free GPUs of nodes; `size` and `free` may be read, and are changed by `take` and `give_back` only."""

    def __init__(self, size: Sequence[int], free: list[int]) -> None:
        self.size, self.free = size, free
        self._by_free: list[list[int]] = [[] for _ in range(max(size, default=0) + 1)]
        self._empty: dict[int, list[int]] = {gpus: [] for gpus in set(size)}
        for node, gpus in enumerate(free):  # ascending, hence heaps
            self._by_free[gpus].append(node)
            if gpus == size[node]:
                self._empty[gpus].append(node)
        self._empties = {gpus: len(nodes) for gpus, nodes in self._empty.items()}

    def take(self, node: int, gpus: int) -> None:
        self._change(node, self.free[node] - gpus)

    def give_back(self, node: int, gpus: int) -> None:
        self._change(node, self.free[node] + gpus)

    def _change(self, node: int, free: int) -> None:
        size, before = self.size[node], self.free[node]
        self._empties[size] += (free == size) - (before == size)
        self.free[node] = free
        heappush(self._by_free[free], node)
        if free == size:
            heappush(self._empty[size], node)

    def empties(self, node_gpus: int) -> int:
        """How many nodes of that size are wholly free."""
        return self._empties.get(node_gpus, 0)

    def best_fit(self, gpus: int, before: Mapping[int, int]) -> int | None:
        """The node with the least room that is enough, but rather one where the job already is.

        before: node -> GPUs the job holds there.
        """
        at_home = [node for node in before if self.free[node] >= gpus]
        if at_home:
            return min(at_home, key=lambda node: (-before[node], self.free[node], node))
        for left in range(gpus, len(self._by_free)):
            heap = self._by_free[left]
            while heap:
                if self.free[heap[0]] == left:
                    return heap[0]
                heappop(heap)
        return None

    def whole_nodes(self, count: int, node_gpus: int, before: Mapping[int, int]) -> list[int] | None:
        """So many wholly free nodes of that size, ascending: those where the job already is, then the lowest.

        The caller takes what it is given.
        """
        if self.empties(node_gpus) < count:
            return None
        at_home = [node for node in before if self.free[node] == self.size[node] == node_gpus]
        found = set(sorted(at_home, key=lambda node: (-before[node], node))[:count])
        heap = self._empty[node_gpus]
        while len(found) < count:
            node = heappop(heap)
            if self.free[node] == node_gpus:
                found.add(node)
        return sorted(found)


class Part(NamedTuple):
    """GPUs of one node that a job holds."""

    gpus: int
    job: str
    node: int


class Tenants:
    """The jobs that hold a part of a node and may be moved for larger ones."""

    def __init__(self, rooms: Rooms, parts: Iterable[Part]) -> None:
        self._rooms = rooms
        self._parts: dict[int, list[Part]] = {}
        for part in parts:
            self._parts.setdefault(part.node, []).append(part)
        for held in self._parts.values():
            held.sort(reverse=True)  # and so they stay: largest first
        self._cheapest: dict[tuple[int, bool], list[tuple[int, int, int]]] = {}

    def make_way(self, gpus: int) -> list[Part]:
        """Let the fewest smaller jobs of one node go so that it has so many GPUs free; [] where none can.

        Only jobs in smaller power-of-two blocks go: one in a block as large would lack what it left.
        """
        return self._clear(1, gpus, whole=False)

    def clear_nodes(self, count: int, node_gpus: int) -> list[Part]:
        """Let the fewest jobs go so that so many nodes of that size are wholly free; [] where it cannot be."""
        return self._clear(count - self._rooms.empties(node_gpus), node_gpus, whole=True)

    def _clear(self, count: int, gpus: int, whole: bool) -> list[Part]:
        heap = self._cheapest.get((gpus, whole))
        if heap is None:
            options = (self._option(node, gpus, whole) for node in self._parts)
            heap = self._cheapest[gpus, whole] = [option for option in options if option is not None]
            heapify(heap)
        chosen: list[tuple[int, int, int]] = []
        while heap and len(chosen) < count:
            option = heappop(heap)
            now = self._option(option[2], gpus, whole)
            if now == option:
                chosen.append(option)
            elif now is not None:  # something else came since
                heappush(heap, now)
        for option in chosen:  # who stays on a cleared node may be in the way of the next one
            heappush(heap, option)
        if len(chosen) < count:
            return []
        going = [part for _, _, node in chosen for part in self._movers(node, gpus, whole)]
        for part in going:
            self._parts[part.node].remove(part)
            self._rooms.give_back(part.node, part.gpus)
        return going

    def _option(self, node: int, gpus: int, whole: bool) -> tuple[int, int, int] | None:
        """(moves, GPUs moved, node), None where nobody goes."""
        movers = self._movers(node, gpus, whole)
        return (len(movers), sum(part.gpus for part in movers), node) if movers else None

    def _movers(self, node: int, gpus: int, whole: bool) -> list[Part]:
        """The fewest: a small one if one is enough, else the largest first; [] if none need or all do not do."""
        if whole and self._rooms.size[node] != gpus:
            return []
        most = gpus if whole else block(gpus) // 2
        lacking = gpus - self._rooms.free[node]
        parts = [part for part in self._parts[node] if part.gpus <= most]
        going: list[Part] = []
        while lacking > 0 and parts:
            last = sum(part.gpus >= lacking for part in parts) - 1
            going.append(parts.pop(max(last, 0)))
            lacking -= going[-1].gpus
        return going if lacking <= 0 else []
