"""From configurations to concrete GPUs (Sia, section 3.3.1).

Three rules: a part of a node is never split over two; whole-node configurations take whole nodes; where
fragmentation leaves no room, some jobs that would have stayed are moved, and counted.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from .cluster import Cluster, Node
from .configuration import Configuration, block
from .placement import NodeShare, Placement


@dataclass(frozen=True)
class Demand:
    """What a job asks for beside each GPU."""

    cpus_per_gpu: float = 1.0
    memory_gib_per_gpu: float = 0.0


@dataclass(frozen=True)
class PlacementResult:
    """Where every job goes.

    evicted: jobs whose configuration did not change but which lost their GPUs to fragmentation; those that
    found room elsewhere are in `placements` all the same. migrated: jobs that ran, run on, and hold no GPU on
    any node they held one on before. unplaced: jobs with a wanted configuration for which there was no room;
    empty whenever the wanted configurations obey `ConfigurationSet.limits`.
    """

    placements: Mapping[str, Placement]
    evicted: tuple[str, ...] = ()
    migrated: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()


class Placer:
    """Places configurations; holds no state, so equal calls give equal results."""

    def place(
        self,
        wanted: Mapping[str, Configuration],
        current: Mapping[str, Placement],
        cluster: Cluster,
        pinned: Collection[str] = (),
        demands: Mapping[str, Demand] | None = None,
    ) -> PlacementResult:
        """Place every wanted configuration, moving as few running jobs as it can.

        A job whose configuration is the one it has keeps its placement, the same object. A pinned job is never
        moved; one whose nodes are gone or no longer hold it is placed anew. Ties go to the lower node
        id and job id. CPUs and memory follow the GPUs, at most the GPUs' part of the node, so that they never
        decide where a job fits; on a node that states none, a share carries none.
        """
        demands = demands or {}
        by_type: dict[str, list[str]] = {}
        for job in sorted(wanted):
            by_type.setdefault(wanted[job].gpu_type, []).append(job)
        placements: dict[str, Placement] = {}
        evicted: list[str] = []
        for gpu_type, jobs in sorted(by_type.items()):
            board = _Board(gpu_type, cluster.of_type(gpu_type), wanted, current, frozenset(pinned))
            settled, moved = board.settle(jobs)
            evicted += moved
            for job, held in settled.items():
                before = current.get(job)
                if before is not None and before.gpu_type == gpu_type and before.by_node == held:
                    placements[job] = before
                else:
                    placements[job] = _placement(gpu_type, held, cluster, demands.get(job, Demand()))
        migrated = tuple(
            job
            for job in sorted(placements)
            if job in current and not current[job].by_node.keys() & placements[job].by_node.keys()
        )
        unplaced = tuple(job for job in sorted(wanted) if job not in placements)
        return PlacementResult(placements, tuple(sorted(evicted)), migrated, unplaced)


Held = dict[str, int]  # node id -> GPUs


class _Rooms:
    """Free GPUs of nodes, and the nodes by how many they have free (heaps; entries out of date are skipped)."""

    def __init__(self, free: Held) -> None:
        self.free = free
        self._heaps: dict[int, list[str]] = {}
        for node in sorted(free):
            self._heaps.setdefault(free[node], []).append(node)  # sorted, hence a heap

    def take(self, node: str, gpus: int) -> None:
        self.free[node] -= gpus
        heapq.heappush(self._heaps.setdefault(self.free[node], []), node)

    def best_fit(self, gpus: int, before: Held) -> str | None:
        """The node with the least room that is enough, but rather one where the job already is."""
        at_home = [node for node in before if self.free.get(node, 0) >= gpus]
        if at_home:
            return min(at_home, key=lambda node: (-before[node], self.free[node], node))
        for left in sorted(self._heaps):
            heap = self._heaps[left]
            while left >= gpus and heap:
                if self.free[heap[0]] == left:
                    return heap[0]
                heapq.heappop(heap)
        return None


@dataclass
class _Board:
    """The nodes of one GPU type while jobs are put on them."""

    gpu_type: str
    nodes: tuple[Node, ...]
    wanted: Mapping[str, Configuration]
    current: Mapping[str, Placement]
    pinned: frozenset[str]
    kept: dict[str, Held] = field(default_factory=dict)

    def settle(self, jobs: list[str]) -> tuple[dict[str, Held], list[str]]:
        """Keep who can stay, place the others, largest first; on fragmentation move fewest and start over.

        Every retry has fewer kept jobs, and with none but pinned ones left any-fit by decreasing block size
        is exact for power-of-two blocks, so a plan within the limits always ends placed.
        """
        self.size = {node.id: node.gpus for node in self.nodes}
        self._keep(jobs)
        evicted: list[str] = []
        while True:
            placed, stuck = self._place([job for job in jobs if job not in self.kept])
            movers = self._movers(stuck, placed) if stuck else []
            if not movers:
                return self.kept | placed, evicted
            for job in movers:
                del self.kept[job]
            evicted += movers

    def _keep(self, jobs: list[str]) -> None:
        """Jobs whose placement already is what is wanted; pinned ones first, in case nodes became smaller."""
        free = dict(self.size)
        for job in sorted(jobs, key=lambda job: (job not in self.pinned, job)):
            placement = self.current.get(job)
            if placement is None or placement.gpu_type != self.gpu_type:
                continue
            held, whole = placement.by_node, self.wanted[job].node_gpus
            stays = job in self.pinned and held.keys() <= self.size.keys()
            stays = stays or self._realises(held, self.wanted[job])
            if stays and all(free[n] >= (whole or g) for n, g in held.items()):
                self.kept[job] = held
                for node, gpus in held.items():
                    free[node] -= whole or gpus

    def _realises(self, held: Held, configuration: Configuration) -> bool:
        if any(node not in self.size for node in held):
            return False
        if tuple(sorted(held.values(), reverse=True)) != configuration.shape:
            return False
        return not configuration.node_gpus or all(self.size[n] == configuration.node_gpus for n in held)

    def _place(self, jobs: list[str]) -> tuple[dict[str, Held], list[str]]:
        """Put jobs on what the kept ones leave free; returns who was placed where, and who was not."""
        free = dict(self.size)
        for job, held in self.kept.items():
            whole = self.wanted[job].node_gpus
            for node, gpus in held.items():
                free[node] -= whole or gpus
        rooms = _Rooms(free)
        placed: dict[str, Held] = {}
        stuck: list[str] = []
        for job in sorted(jobs, key=self._largest_first):
            configuration = self.wanted[job]
            before = self._before(job)
            if configuration.node_gpus:
                found = self._whole_nodes(configuration, free, before)
            else:
                room = rooms.best_fit(configuration.gpus, before)
                found = None if room is None else {room: configuration.gpus}
            if found is None:
                stuck.append(job)
                continue
            placed[job] = found
            for node_id, gpus in found.items():
                rooms.take(node_id, configuration.node_gpus or gpus)
        return placed, stuck

    def _largest_first(self, job: str) -> tuple[bool, int, int, str]:
        c = self.wanted[job]
        return (c.node_gpus == 0, -c.nodes, -(c.node_gpus or block(c.gpus)), job)

    def _before(self, job: str) -> Held:
        placement = self.current.get(job)
        return placement.by_node if placement is not None and placement.gpu_type == self.gpu_type else {}

    def _whole_nodes(self, configuration: Configuration, free: Held, before: Held) -> Held | None:
        size = configuration.node_gpus
        fits = [n for n, gpus in free.items() if gpus == size == self.size[n]]
        if len(fits) < configuration.nodes:
            return None
        fits.sort(key=lambda node: (-before.get(node, 0), node))
        return dict(zip(sorted(fits[: configuration.nodes]), configuration.shape, strict=True))

    def _movers(self, stuck: list[str], placed: dict[str, Held]) -> list[str]:
        """The fewest kept jobs whose leaving makes room for the first job that found none."""
        movable = {job: held for job, held in self.kept.items() if job not in self.pinned}
        if not movable:
            return []
        tenants: dict[str, list[str]] = {node: [] for node in self.size}
        for job, held in movable.items():
            for node in held:
                tenants[node].append(job)
        taken = dict.fromkeys(self.size, 0)
        for job, held in (self.kept | placed).items():
            for node, gpus in held.items():
                taken[node] += self.wanted[job].node_gpus or gpus
        for job in stuck:
            configuration = self.wanted[job]
            movers = (
                self._clear_nodes(configuration, tenants, taken)
                if configuration.node_gpus
                else self._clear_part(configuration.gpus, tenants, taken)
            )
            if movers:
                return movers
        # Room is lost to jobs placed this round: let the smallest kept job take part in the new packing.
        return [min(movable, key=lambda job: (self.wanted[job].gpus, job))]

    def _clear_part(self, gpus: int, tenants: dict[str, list[str]], taken: Held) -> list[str]:
        """Kept jobs of one node, a single small one if that is enough, else the largest ones first."""
        options: list[tuple[int, int, str, list[str]]] = []
        for node, jobs in tenants.items():
            lacking = gpus - (self.size[node] - taken[node])
            parts = sorted(((self.kept[job][node], job) for job in jobs if len(self.kept[job]) == 1), reverse=True)
            going: list[str] = []
            while lacking > 0 and parts:
                enough = [part for part in parts if part[0] >= lacking]
                part = enough[-1] if enough else parts[0]
                parts.remove(part)
                going.append(part[1])
                lacking -= part[0]
            if lacking <= 0 and going:
                options.append((len(going), sum(self.kept[job][node] for job in going), node, going))
        return min(options)[3] if options else []

    def _clear_nodes(self, configuration: Configuration, tenants: dict[str, list[str]], taken: Held) -> list[str]:
        """Kept small jobs on the nodes that cost the fewest moves to clear."""
        options: list[tuple[int, int, str, list[str]]] = []
        for node, jobs in tenants.items():
            if self.size[node] != configuration.node_gpus:
                continue
            parts = [job for job in jobs if len(self.kept[job]) == 1]
            held = sum(self.wanted[job].node_gpus or self.kept[job][node] for job in parts)
            if held == taken[node]:
                options.append((len(parts), held, node, parts))
        options.sort()
        if len(options) < configuration.nodes:
            return []
        return [job for option in options[: configuration.nodes] for job in option[3]]


def _placement(gpu_type: str, held: Held, cluster: Cluster, demand: Demand) -> Placement:
    shares = []
    for node_id, gpus in sorted(held.items()):
        node = cluster.by_id[node_id]
        cpus = gpus * min(demand.cpus_per_gpu, node.cpus / node.gpus)
        memory = gpus * min(demand.memory_gib_per_gpu, node.memory_gib / node.gpus)
        shares.append(NodeShare(node_id, gpus, cpus, memory))
    return Placement(gpu_type, tuple(shares))
