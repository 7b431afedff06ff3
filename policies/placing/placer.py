"""Places configurations on nodes (Sia, section 3.3.1).

There are three rules. A part of a node is never split over two nodes. Whole-node configurations take whole nodes.
If fragmentation leaves no room, some jobs that would have stayed are moved, and counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from ...core.cluster import Cluster
from ...core.placement import NodeShare, Placement
from ...core.resources import Totals
from ..contract.configuration import Configuration, block
from .demand import WISH, Demand
from .free_gpu_index import FreeGpuIndex, Part, PreemptionCandidates
from .ledger import NOWHERE, totals_of


@dataclass(frozen=True)
class PlacementResult:
    """Where every job goes.

    evicted: jobs that kept their configuration but lost their GPUs to fragmentation, even if they found others.
    migrated: jobs that run on, but on none of the nodes that they held before.
    unplaced: jobs without room for their wanted configuration; none if these obey `ConfigurationSet.limits`.
    """

    placements: Mapping[str, Placement]
    evicted: tuple[str, ...] = ()
    migrated: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()


class Placer:
    """Places configurations. It keeps no state, so equal calls give equal results."""

    def place(
        self,
        wanted: Mapping[str, Configuration],
        current: Mapping[str, Placement],
        cluster: Cluster,
        pinned: Collection[str] = (),
        demands: Mapping[str, Demand] | None = None,
    ) -> PlacementResult:
        """Place every wanted configuration, and move few running jobs.

        A job that already has its configuration keeps its placement, as the same object. A pinned job is never
        moved, but it is placed anew if its nodes are gone or too small. Ties go to the lower node id and job id.

        A job with the default demand gets at most its GPUs' part of CPUs and memory, so these do not decide where
        it fits. Any other demand must be free on the node. A share of a node without stated CPUs or memory carries
        none.

        Args:
            demands: read only for jobs that do not stay as they are.
        """
        demands, fixed = demands or {}, frozenset(pinned)
        by_type: dict[str, list[str]] = {}
        for job in sorted(wanted):
            by_type.setdefault(wanted[job].gpu_type, []).append(job)
        placements: dict[str, Placement] = {}
        evicted: list[str] = []
        migrated: list[str] = []
        unplaced: list[str] = []
        for gpu_type, jobs in sorted(by_type.items()):
            board = _Board(gpu_type, cluster, wanted, current, fixed, demands)
            board.settle(jobs)
            for job in board.kept:
                placements[job] = current[job]
            for job, held in board.placed.items():
                before = current.get(job)
                if before is not None and before.nodes == len(held) and board.before(job) == held:
                    placements[job] = before
                    continue
                placements[job] = Placement(gpu_type, tuple(board.shares[job]))
                if before is not None and not board.is_on(before, held):
                    migrated.append(job)
            evicted += [job for job in board.moved if placements.get(job) is not current[job]]
            unplaced += board.unplaced
        return PlacementResult(
            placements, tuple(sorted(evicted)), tuple(sorted(migrated)), tuple(sorted(unplaced))
        )


Held = dict[int, int]  # position of a node among those of its type -> GPUs


class _Board:
    """The nodes of one GPU type while jobs are put on them.

    kept: jobs that stay as they are.
    placed: nodes of the other jobs.
    shares: what these jobs hold there.
    unplaced: jobs that found no room.
    moved: jobs that could have stayed but had to make room.
    """

    def __init__(
        self,
        gpu_type: str,
        cluster: Cluster,
        wanted: Mapping[str, Configuration],
        current: Mapping[str, Placement],
        pinned: frozenset[str],
        demands: Mapping[str, Demand],
    ) -> None:
        self.gpu_type, self.nodes = gpu_type, cluster.of_type(gpu_type)
        self._at, self._wanted, self._current, self._pinned = cluster.positions, wanted, current, pinned
        self._demands = demands
        self._asked: dict[str, Demand] = {}
        self._totals = totals_of(cluster).get(gpu_type) or Totals.of(cluster, gpu_type)
        self._size: list[int] = self._totals.gpus.tolist()
        self.kept: dict[str, None] = {}
        self.placed: dict[str, Held] = {}
        self.shares: dict[str, list[NodeShare]] = {}
        self.moved: list[str] = []
        self.unplaced: list[str] = []

    def settle(self, jobs: list[str]) -> None:
        """Keep the jobs that can stay and place the others, largest first. Smaller jobs move if one finds no room.

        Of equal sizes, those that ask for the most CPUs come first.

        When a block of b GPUs is placed, every block placed before is at least as large. Only smaller jobs that
        stayed can be in its way. Sizes are powers of two, so a plan within the limits leaves room for b on some
        node once these are gone. They are placed after it, so nothing is placed twice.
        """
        free = list(self._size)
        to_place = self._keep(jobs, free)
        if not to_place:
            return
        free_gpus = FreeGpuIndex(self.nodes, self._totals, free, *self._left())
        candidates: PreemptionCandidates | None = None
        queue = [self._largest_first(job) for job in to_place]
        heapify(queue)
        while queue:
            job = heappop(queue)[-1]
            demand = self._demand(job)
            found = self._find(job, free_gpus, demand)
            if found is None:
                candidates = candidates or PreemptionCandidates(free_gpus, self._parts())
                c = self._wanted[job]
                movers = (
                    candidates.clear_nodes(c.nodes, c.node_gpus, demand)
                    if c.node_gpus
                    else candidates.make_way(c.gpus, demand)
                )
                for part in movers:
                    del self.kept[part.job]
                    self.moved.append(part.job)
                    heappush(queue, self._largest_first(part.job))
                found = self._find(job, free_gpus, demand) if movers else None
            if found is None:
                self.unplaced.append(job)
                continue
            self.placed[job], self.shares[job] = found, (shares := [])
            for node, gpus in found.items():
                share = NodeShare(self.nodes[node].id, gpus, *demand.on(self.nodes[node], gpus))
                shares.append(share)
                free_gpus.take(node, self._wanted[job].node_gpus or gpus, share.cpus, share.memory_gib)

    def _left(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the CPUs and memory that kept jobs leave on each node; infinity if it states none."""
        shares = [share for job in self.kept for share in self._current[job].shares]
        positions = self._at
        at = np.array([positions[share.node_id][1] for share in shares], np.int64)
        cpus = np.bincount(at, [share.cpus for share in shares], len(self._size))
        memory = np.bincount(at, [share.memory_gib for share in shares], len(self._size))
        return self._totals.cpus - cpus, self._totals.memory_gib - memory

    def _keep(self, jobs: list[str], free: list[int]) -> list[str]:
        """Keep the jobs that already have what is wanted, take their GPUs, and return the other jobs.

        Pinned jobs come first, in case nodes became smaller.
        """
        others: list[str] = []
        if self._pinned:
            jobs = sorted(jobs, key=lambda job: (job not in self._pinned, job))
        for job in jobs:
            nodes = self._stays(job, free)
            if nodes:
                self.kept[job] = None
                whole = self._wanted[job].node_gpus
                for node, share in zip(nodes, self._current[job].shares, strict=True):
                    free[node] -= whole or share.gpus
            else:
                others.append(job)
        return others

    def _stays(self, job: str, free: list[int]) -> list[int]:
        """Return the nodes of a job that is pinned or holds what is wanted; [] if they are gone or too small."""
        placement, c = self._current.get(job), self._wanted[job]
        if placement is None or placement.gpu_type != self.gpu_type:
            return []
        pinned, whole, nodes = job in self._pinned, c.node_gpus, []
        if not pinned and not _realises(placement, c):
            return []
        for share in placement.shares:
            gpu_type, node = self._at.get(share.node_id, NOWHERE)
            if gpu_type != self.gpu_type or free[node] < (whole or share.gpus):
                return []
            if whole and not pinned and self._size[node] != whole:
                return []
            nodes.append(node)
        return nodes

    def before(self, job: str) -> Held:
        """Return what a job holds on nodes of this type that still exist."""
        placement, held = self._current.get(job), {}
        if placement is not None and placement.gpu_type == self.gpu_type:
            for share in placement.shares:
                gpu_type, node = self._at.get(share.node_id, NOWHERE)
                if gpu_type == self.gpu_type:
                    held[node] = share.gpus
        return held

    def is_on(self, placement: Placement, held: Held) -> bool:
        """Return whether a placement of any type has one of the nodes in `held`."""
        at = (self._at.get(share.node_id, NOWHERE) for share in placement.shares)
        return any(node in held for gpu_type, node in at if gpu_type == self.gpu_type)

    def _parts(self) -> Iterator[Part]:
        """Yield the kept jobs that have a part of one node and may be moved."""
        for job in self.kept:
            shares = self._current[job].shares
            if len(shares) == 1 and not self._wanted[job].node_gpus and job not in self._pinned:
                share = shares[0]
                yield Part(share.gpus, job, self._at[share.node_id][1], share.cpus, share.memory_gib)

    def _find(self, job: str, free_gpus: FreeGpuIndex, demand: Demand) -> Held | None:
        configuration, before = self._wanted[job], self.before(job)
        if configuration.node_gpus:
            nodes = free_gpus.whole_nodes(configuration.nodes, configuration.node_gpus, before, demand)
            return None if nodes is None else dict(zip(nodes, configuration.shape, strict=True))
        node = free_gpus.best_fit(configuration.gpus, before, demand)
        return None if node is None else {node: configuration.gpus}

    def _demand(self, job: str) -> Demand:
        found = self._asked.get(job)
        if found is None:
            found = self._asked[job] = self._demands.get(job, WISH)
        return found

    def _largest_first(self, job: str) -> tuple[bool, int, int, float, float, str]:
        c, asks = self._wanted[job], self._demand(job)
        size = c.node_gpus or block(c.gpus)
        return (c.node_gpus == 0, -c.nodes, -size, -asks.least_cpus, -asks.least_memory_gib, job)


def _realises(placement: Placement, configuration: Configuration) -> bool:
    """Return whether a placement has the configuration's shape. The size of its nodes is not checked."""
    if placement.nodes != configuration.nodes or placement.gpus != configuration.gpus:
        return False
    if placement.nodes == 1:
        return True
    return sorted(placement.by_node.values(), reverse=True) == list(configuration.shape)
