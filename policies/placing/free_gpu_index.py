"""Finds room on the nodes of one type, and jobs whose leaving makes room with the fewest moves.

Nodes are positions in the order of their ids. Heaps find nodes, and entries that are out of date are skipped. So
neither a change nor a question costs more on more nodes. Only a job that asks for more CPUs or memory than its
GPUs' part looks at all nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.cluster import Node
from ...core.resources import TOLERANCE, Totals
from ..contract.configuration import block
from .demand import WISH, Demand

Floats = NDArray[np.float64]


class FreeGpuIndex:
    """Free GPUs, CPUs and memory of nodes of one type. Only `take` and `give_back` change them.

    free: free GPUs of each node.
    cpus, memory_gib: what is left on each node; infinity if the node states none.
    """

    def __init__(
        self, nodes: Sequence[Node], totals: Totals, free: list[int], cpus: Floats, memory_gib: Floats
    ) -> None:
        self.nodes, self.free = nodes, free
        size: list[int] = totals.gpus.tolist()
        self.size = size
        self.cpus: list[float] = cpus.tolist()
        self.memory_gib: list[float] = memory_gib.tolist()
        # Whether a node has fewer CPUs or less memory left than its free GPUs' part, so that a wish may not fit.
        self.uneven = _is_uneven(totals, np.array(free), cpus, memory_gib)
        self._cpus_per_gpu: list[float] = (totals.cpus / totals.gpus).tolist()
        self._gib_per_gpu: list[float] = (totals.memory_gib / totals.gpus).tolist()
        self._by_free: list[list[int]] = [[] for _ in range(max(size, default=0) + 1)]
        self._empty: dict[int, list[int]] = {gpus: [] for gpus in set(size)}
        for node, gpus in enumerate(free):  # ascending lists are heaps
            self._by_free[gpus].append(node)
            if gpus == size[node]:
                self._empty[gpus].append(node)
        self._empties = {gpus: len(nodes) for gpus, nodes in self._empty.items()}

    def take(self, node: int, gpus: int, cpus: float, memory_gib: float) -> None:
        self.cpus[node] -= cpus
        self.memory_gib[node] -= memory_gib
        self._change(node, self.free[node] - gpus)

    def give_back(self, node: int, gpus: int, cpus: float, memory_gib: float) -> None:
        self.cpus[node] += cpus
        self.memory_gib[node] += memory_gib
        self._change(node, self.free[node] + gpus)

    def _change(self, node: int, free: int) -> None:
        size, before = self.size[node], self.free[node]
        self._empties[size] += (free == size) - (before == size)
        self.free[node] = free
        if not self.uneven and free:
            self.uneven = (
                self.cpus[node] < free * self._cpus_per_gpu[node] - TOLERANCE
                or self.memory_gib[node] < free * self._gib_per_gpu[node] - TOLERANCE
            )
        heappush(self._by_free[free], node)
        if free == size:
            heappush(self._empty[size], node)

    def empties(self, node_gpus: int, demand: Demand) -> int:
        """Return how many nodes with `node_gpus` GPUs are wholly free and have what is asked for beside them."""
        found = self._empties.get(node_gpus, 0)
        if not found or demand.is_wish:
            return found
        free = (n for n, size in enumerate(self.size) if size == node_gpus == self.free[n])
        return sum(self.has(node, node_gpus, demand) for node in free)

    def lacks(self, node: int, gpus: int, demand: Demand, going: Sequence[Part]) -> tuple[bool, bool]:
        """Return whether a node lacks CPUs, and memory, for so many GPUs once some parts are gone."""
        cpus, memory_gib = demand.on(self.nodes[node], gpus)
        cpus -= self.cpus[node] + sum(part.cpus for part in going)
        memory_gib -= self.memory_gib[node] + sum(part.memory_gib for part in going)
        return cpus > TOLERANCE, memory_gib > TOLERANCE

    def has(self, node: int, gpus: int, demand: Demand) -> bool:
        """Return whether a node has the CPUs and the memory for so many GPUs."""
        if demand.is_wish and not self.uneven:
            return True
        cpus, memory_gib = demand.on(self.nodes[node], gpus)
        return cpus <= self.cpus[node] + TOLERANCE and memory_gib <= self.memory_gib[node] + TOLERANCE

    def best_fit(self, gpus: int, before: Mapping[int, int], demand: Demand) -> int | None:
        """Return a node with room: one where the job already is, or else the fullest. None if there is none.

        Where CPUs are short, nodes come first on which the job leaves the fewest free GPUs without CPUs.

        Args:
            before: GPUs that the job holds, by node.
        """
        at_home = [node for node in before if self.free[node] >= gpus and self.has(node, gpus, demand)]
        if at_home:
            return min(at_home, key=lambda node: (-before[node], self.free[node], node))
        if self.uneven or not demand.is_wish:
            fits = [n for n in range(len(self.free)) if self.free[n] >= gpus and self.has(n, gpus, demand)]
            by = partial(self._strands, gpus=gpus, demand=demand)
            return min(fits, key=lambda node: (by(node), self.free[node], node), default=None)
        for left in range(gpus, len(self._by_free)):
            heap = self._by_free[left]
            while heap:
                if self.free[heap[0]] == left:
                    return heap[0]
                heappop(heap)
        return None

    def _strands(self, node: int, gpus: int, demand: Demand) -> int:
        """Return how many more free GPUs of a node have no CPUs for a wish, once a job has its GPUs there."""
        each = min(WISH.least_cpus, self._cpus_per_gpu[node])

        def without(free: int, cpus: float) -> int:
            return free - int(min(cpus / each, free) + TOLERANCE)

        free, cpus = self.free[node], self.cpus[node]
        return without(free - gpus, cpus - demand.on(self.nodes[node], gpus)[0]) - without(free, cpus)

    def whole_nodes(
        self, count: int, node_gpus: int, before: Mapping[int, int], demand: Demand
    ) -> list[int] | None:
        """Return `count` wholly free nodes of a size, in ascending order; None if there are too few.

        Nodes where the job already is come first, then the lowest. The caller must take all of them.
        """
        if self._empties.get(node_gpus, 0) < count:
            return None
        at_home = [
            node
            for node in before
            if self.free[node] == self.size[node] == node_gpus and self.has(node, node_gpus, demand)
        ]
        found = set(sorted(at_home, key=lambda node: (-before[node], node))[:count])
        heap, lacking = self._empty[node_gpus], []
        while heap and len(found) < count:
            node = heappop(heap)
            if self.free[node] == node_gpus:
                if self.has(node, node_gpus, demand):
                    found.add(node)
                else:
                    lacking.append(node)
        for node in lacking if len(found) == count else (*lacking, *found):
            heappush(heap, node)
        return sorted(found) if len(found) == count else None


def _is_uneven(totals: Totals, free: NDArray[np.int64], cpus: Floats, memory_gib: Floats) -> bool:
    part = free / totals.gpus
    with np.errstate(invalid="ignore"):  # infinity times 0
        lacks = (cpus < part * totals.cpus - TOLERANCE) | (memory_gib < part * totals.memory_gib - TOLERANCE)
    return bool(lacks.any())


class Part(NamedTuple):
    """What a job holds of one node."""

    gpus: int
    job: str
    node: int
    cpus: float
    memory_gib: float


class _Want(NamedTuple):
    """Room that is looked for: GPUs of one node, or all of a node of so many, with what is asked beside each."""

    gpus: int
    whole: bool
    demand: Demand


class PreemptionCandidates:
    """The jobs that hold a part of a node and may be moved to make room for larger ones."""

    def __init__(self, free_gpus: FreeGpuIndex, parts: Iterable[Part]) -> None:
        self._free_gpus = free_gpus
        self._parts: dict[int, list[Part]] = {}
        for part in parts:
            self._parts.setdefault(part.node, []).append(part)
        for held in self._parts.values():
            held.sort(reverse=True)  # largest first, which removals keep
        self._cheapest: dict[_Want, list[tuple[int, int, int]]] = {}

    def make_way(self, gpus: int, demand: Demand) -> list[Part]:
        """Remove the fewest smaller jobs of one node, so that a job finds its GPUs there. Return their parts.

        Only jobs in smaller power-of-two blocks go, as a job in an equal block would need as much room elsewhere.
        Where CPUs or memory are short, jobs in an equal block that hold less of them go as well. The result is []
        if no node can be cleared so.
        """
        return self._clear(1, _Want(gpus, False, demand))

    def clear_nodes(self, count: int, node_gpus: int, demand: Demand) -> list[Part]:
        """Remove the fewest jobs, so that `count` nodes of a size are wholly free; [] if that cannot be."""
        free = self._free_gpus.empties(node_gpus, demand)
        return self._clear(count - free, _Want(node_gpus, True, demand))

    def _clear(self, count: int, want: _Want) -> list[Part]:
        heap = self._cheapest.get(want)
        if heap is None:
            options = (self._option(node, want) for node in self._parts)
            heap = self._cheapest[want] = [option for option in options if option is not None]
            heapify(heap)
        chosen: list[tuple[int, int, int]] = []
        while heap and len(chosen) < count:
            option = heappop(heap)
            now = self._option(option[2], want)
            if now == option:
                chosen.append(option)
            elif now is not None:  # the node has changed since
                heappush(heap, now)
        for option in chosen:  # jobs that stay on a cleared node may have to leave next time
            heappush(heap, option)
        if len(chosen) < count:
            return []
        going = [part for _, _, node in chosen for part in self._movers(node, want)]
        for part in going:
            self._parts[part.node].remove(part)
            self._free_gpus.give_back(part.node, part.gpus, part.cpus, part.memory_gib)
        return going

    def _option(self, node: int, want: _Want) -> tuple[int, int, int] | None:
        """Return (moves, GPUs moved, node); None if no moves clear the node."""
        movers = self._movers(node, want)
        return (len(movers), sum(part.gpus for part in movers), node) if movers else None

    def _movers(self, node: int, want: _Want) -> list[Part]:
        """Return the fewest parts to move: the smallest that is enough alone, else the largest first.

        The result is [] if nothing has to move or moving all is not enough.
        """
        gpus, whole, demand = want
        if whole and self._free_gpus.size[node] != gpus:
            return []
        most = gpus if whole else block(gpus) // 2
        lacking = gpus - self._free_gpus.free[node]
        parts = [part for part in self._parts[node] if part.gpus <= most]
        if not self._free_gpus.has(node, gpus, demand):
            return self._movers_with(node, want, lacking, [*parts, *self._lighter(node, want)])
        going: list[Part] = []
        while lacking > 0 and parts:
            last = sum(part.gpus >= lacking for part in parts) - 1
            going.append(parts.pop(max(last, 0)))
            lacking -= going[-1].gpus
        return going if lacking <= 0 else []

    def _movers_with(self, node: int, want: _Want, lacking: int, parts: list[Part]) -> list[Part]:
        """Return the fewest of these parts that free the GPUs, and the CPUs and memory that the node lacks too.

        The smallest that is enough alone, else those that hold most of what lacks; [] if all are not enough.
        """
        lacks = partial(self._free_gpus.lacks, node, want.gpus, want.demand)
        alone = [part for part in parts if part.gpus >= lacking and not any(lacks([part]))]
        if alone:
            return [min(alone, key=lambda part: (part.gpus, part.cpus, part.memory_gib, part.job))]
        going: list[Part] = []
        while parts and (lacking > 0 or any(lacks(going))):
            cpus, memory = lacks(going)
            by = attrgetter("cpus" if cpus else "memory_gib" if memory else "gpus")
            going.append(max(parts, key=lambda part: (by(part), -part.gpus, part.job)))
            parts.remove(going[-1])
            lacking -= going[-1].gpus
        return [] if lacking > 0 or any(lacks(going)) else going

    def _lighter(self, node: int, want: _Want) -> list[Part]:
        """Return the parts in an equal block that hold fewer CPUs, or as many and less memory."""
        gpus, whole, demand = want
        if whole:
            return []
        most, asked = block(gpus), demand.on(self._free_gpus.nodes[node], gpus)
        return [
            part
            for part in self._parts[node]
            if most // 2 < part.gpus <= most and (part.cpus, part.memory_gib) < asked
        ]
