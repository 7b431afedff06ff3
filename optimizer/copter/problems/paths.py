"""Finds the few paths that each demand may use: the k shortest by hops that share no edge, in flat arrays.

POP and Teal give each pair of nodes four edge-disjoint shortest paths. The shortest one is taken, and its edges
are left out. That is repeated until k paths are found or the nodes are disconnected. All searches are
breadth-first, and ties go to the first edge. Kdl's 568 thousand pairs have fewer than two million such paths.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numba import njit

from .topology import Topology


@dataclass(frozen=True, eq=False)
class Paths:
    """The paths of demands in flat arrays. A demand's paths are in order of hops.

    first: (demands + 1,) where each demand's paths begin.
    start: (paths + 1,) where each path's edges begin.
    edge: (hops of all paths,) edge numbers, of 16 bits if they fit.
    """

    first: np.ndarray
    start: np.ndarray
    edge: np.ndarray

    @property
    def demands(self) -> int:
        return len(self.first) - 1

    @property
    def count(self) -> int:
        return len(self.start) - 1

    @property
    def demand(self) -> np.ndarray:
        """(paths,) the number of each path's demand."""
        return np.repeat(np.arange(self.demands), np.diff(self.first))

    def shortest(self) -> tuple[Paths, np.ndarray]:
        """Return the first path of each demand that has one, and their numbers among all paths."""
        has = np.diff(self.first) > 0
        which = self.first[:-1][has]
        hops = np.diff(self.start)[which]
        return Paths(_starts(has), _starts(hops), self.edge[_ranges(self.start[which], hops)]), which

    def of(self, demands: np.ndarray) -> tuple[Paths, np.ndarray]:
        """Return the paths of some demands, and their numbers among all paths."""
        counts = np.diff(self.first)[demands]
        which = _ranges(self.first[demands], counts)
        hops = np.diff(self.start)[which]
        edge = self.edge[_ranges(self.start[which], hops)]
        return Paths(_starts(counts), _starts(hops), edge), which


def edge_disjoint_paths(
    topology: Topology, source: np.ndarray, target: np.ndarray, k: int = 4, threads: int = 2
) -> Paths:
    """Find up to k paths for each demand (demands,) from source to target; none if there is no way.

    Raises:
        ValueError: for k below 1, and nodes that do not exist or are both ends of a demand.
    """
    if k < 1:
        raise ValueError(f"k: is {k}, not at least 1")
    if source.shape != target.shape:
        raise ValueError(f"source, target: have shapes {source.shape}, {target.shape}; both must be (demands,)")
    for name, array in (("source", source), ("target", target)):
        outside = (array < 0) | (array >= topology.nodes)
        if outside.any():
            j = int(outside.argmax())
            raise ValueError(f"{name}[{j}]: is {array[j]}, not a node below {topology.nodes}")
    if (source == target).any():
        raise ValueError(f"source[{int((source == target).argmax())}]: is the target too; two nodes are needed")
    order = np.argsort(topology.tail, kind="stable").astype(np.int32)
    out = np.searchsorted(topology.tail[order], np.arange(topology.nodes + 1)).astype(np.int32)
    head, tail = topology.head.astype(np.int32), topology.tail.astype(np.int32)
    kind = np.int16 if topology.edges <= np.iinfo(np.int16).max else np.int32
    chunks = np.array_split(np.arange(len(source)), max(1, min(len(source), 64 * threads)))

    def search(chunk: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        room = 64 * k * max(1, len(chunk))
        while True:
            found = np.empty(room, dtype=kind)
            counts, hops, used = _search(
                topology.nodes, out, order, tail, head, source[chunk], target[chunk], k, found
            )
            if used >= 0:
                return counts, hops, found[:used].copy()
            room *= 2

    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(search, chunks))
    counts, hops, edges = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Paths(_starts(counts), _starts(hops), edges)


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def _ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return start, start + 1, ..., start + count - 1 of each, one after another."""
    begins = _starts(counts)
    return np.arange(begins[-1]) + np.repeat(starts - begins[:-1], counts)


@njit(cache=True, nogil=True)
def _search(
    nodes: int,
    out: np.ndarray,
    order: np.ndarray,
    tail: np.ndarray,
    head: np.ndarray,
    source: np.ndarray,
    target: np.ndarray,
    k: int,
    found: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return paths per demand, hops per path, and the used entries of `found`; -1 if it is too small."""
    demands = len(source)
    counts = np.zeros(demands, np.int64)
    hops = np.empty(demands * k, np.int64)
    paths = used = 0
    seen = np.zeros(nodes, np.int64)  # the search that reached each node last
    by = np.empty(nodes, np.int32)  # the edge by which it was reached
    queue = np.empty(nodes, np.int32)
    left_out = np.zeros(len(head), np.int64)  # 1 + the demand whose path took the edge
    search = 0
    for j in range(demands):
        for _ in range(k):
            search += 1
            queue[0] = source[j]
            seen[source[j]] = search
            begin, end = 0, 1
            while begin < end and seen[target[j]] != search:
                node = queue[begin]
                begin += 1
                for i in range(out[node], out[node + 1]):
                    e = order[i]
                    to = head[e]
                    if seen[to] != search and left_out[e] != j + 1:
                        seen[to] = search
                        by[to] = e
                        queue[end] = to
                        end += 1
            if seen[target[j]] != search:
                break
            length, node = 0, target[j]
            while node != source[j]:
                node = tail[by[node]]
                length += 1
            if used + length > len(found):
                return counts, hops, -1
            node = target[j]
            for i in range(used + length - 1, used - 1, -1):
                found[i] = by[node]
                left_out[by[node]] = j + 1
                node = tail[by[node]]
            used += length
            hops[paths] = length
            paths += 1
            counts[j] += 1
    return counts, hops[:paths], used
