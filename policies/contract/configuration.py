"""Which configurations exist on a cluster, and which sets of them fit on it together.

Sia (section 3.3.3) chooses among few shapes: powers of two inside a node, and whole nodes beyond. So a few linear
constraints per GPU type decide whether a set of configurations can be placed. A policy that keeps to them chooses
sizes, and the placer always finds room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...core.cluster import Cluster
from ...core.job import JobSpec
from ...core.placement import Placement
from ...estimators.goodput import ConfigurationArrays


@dataclass(frozen=True, order=True)
class Configuration:
    """`gpus` GPUs of one type on `nodes` nodes.

    `node_gpus` is 0 for a part of one node, which may share the node with other jobs. Any other configuration
    takes whole nodes of `node_gpus` GPUs each, and holds `gpus` of these, split evenly.
    """

    nodes: int
    gpus: int
    gpu_type: str
    node_gpus: int = 0

    def __str__(self) -> str:
        return f"{self.gpus}x{self.gpu_type}" + (f" ({self.nodes} nodes)" if self.nodes > 1 else "")

    def holds_replicas(self, gpus_per_replica: int) -> bool:
        """Return whether it holds whole replicas. Only a replica larger than the part of a node may span nodes."""
        if self.gpus % gpus_per_replica:
            return False
        shape = self.shape
        return gpus_per_replica > shape[0] or all(gpus % gpus_per_replica == 0 for gpus in shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The GPUs held on each node, in descending order."""
        each, more = divmod(self.gpus, self.nodes)
        return (each + 1,) * more + (each,) * (self.nodes - more)


@dataclass(frozen=True)
class Limits:
    """What decides whether a set of configurations can be placed: the sum of usage is at most the capacity.

    The first limit of a type counts its GPUs. Node sizes or pinned jobs may make further limits necessary. These
    count GPUs in free power-of-two blocks of at least some size, or free whole nodes.

    usage: (limits, configurations), or (kinds, limits, configurations) if it depends on the kind of the job.
    capacity: (limits,).
    gpu_types: the GPU type of each limit.
    """

    usage: np.ndarray
    capacity: np.ndarray
    gpu_types: tuple[str, ...]

    def of_kind(self, kind: int) -> np.ndarray:
        """Return (limits, configurations) what each takes for a job of a kind."""
        return self.usage if self.usage.ndim == 2 else np.asarray(self.usage[kind])


def block(gpus: int) -> int:
    """Return the smallest power of two that holds `gpus` GPUs."""
    return 1 << (gpus - 1).bit_length()


class ConfigurationSet:
    """Every configuration of a cluster, in a stable order: by GPU type, then GPUs, then nodes.

    A GPU type has two kinds of regular configurations:
      * parts of a node: 1, 2, 4, … up to the largest power of two that fits a node of the type;
      * whole nodes: n x R GPUs for each node size R and n = 2 to the number of such nodes. R itself is one if it
        is no power of two. (To smaller jobs a node of 6 is a block of 4 and one of 2.)
    A configuration of several nodes takes nodes of one size only.

    Special configurations hold counts that only some jobs need: rigid jobs, reservations, replicas of 3 or 6 GPUs.
    They hold a part of a power-of-two block of a node, or of whole nodes. Nobody gets the rest of the block, so
    that every plan can be placed.

    Args:
        extra: (GPU type, GPUs, GPUs per replica) of special configurations. Those that no nodes hold are left out.
        most_gpus: the most GPUs of a regular configuration.
    """

    def __init__(
        self,
        cluster: Cluster,
        extra: Collection[tuple[str, int, int]] = (),
        most_gpus: int | None = None,
    ) -> None:
        self.cluster = cluster
        self._sizes = {t: Counter(node.gpus for node in cluster.of_type(t)) for t in cluster.gpu_types}
        regular = {
            c
            for t, sizes in self._sizes.items()
            for c in _regular(t, sizes)
            if most_gpus is None or c.gpus <= most_gpus
        }
        shapes: dict[tuple[str, int], list[Configuration]] = {}
        for c in regular:
            shapes.setdefault((c.gpu_type, c.gpus), []).append(c)
        special: set[Configuration] = set()
        for t, gpus, per_replica in extra:
            if any(known.holds_replicas(per_replica) for known in shapes.get((t, gpus), ())):
                continue
            found = _special(t, gpus, per_replica, self._sizes.get(t, Counter()))
            if found is not None:
                special.add(found)
        order = sorted(regular | special, key=lambda c: (c.gpu_type, c.gpus, c.nodes, c.node_gpus))
        self.items: tuple[Configuration, ...] = tuple(order)
        self.special = np.array([c in special for c in order], dtype=bool)
        self._replicas: dict[int, np.ndarray] = {}
        self._index = {(c.gpu_type, c.nodes, c.gpus, c.node_gpus): i for i, c in enumerate(order)}

    @classmethod
    def for_jobs(cls, cluster: Cluster, specs: Iterable[JobSpec]) -> ConfigurationSet:
        """Return the configurations that these jobs may need."""
        return cls(cluster, *needs(cluster, specs))

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Configuration:
        return self.items[index]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(str(c) for c in self.items)

    @cached_property
    def arrays(self) -> ConfigurationArrays:
        """Nodes, GPUs and type of every configuration. GPUs per node are those of a type's most common size."""
        types = self.cluster.gpu_types
        place = {t: i for i, t in enumerate(types)}
        common = [max(self._sizes[t].items(), key=lambda size: (size[1], size[0]))[0] for t in types]
        return ConfigurationArrays(
            gpu_types=types,
            gpus_per_node=np.array(common, dtype=np.int64),
            type_index=np.array([place[c.gpu_type] for c in self.items], dtype=np.int64),
            nodes=np.array([c.nodes for c in self.items], dtype=np.int64),
            gpus=np.array([c.gpus for c in self.items], dtype=np.int64),
        )

    def holds_replicas(self, gpus_per_replica: int) -> np.ndarray:
        """Return (configurations,) `Configuration.holds_replicas` for each."""
        found = self._replicas.get(gpus_per_replica)
        if found is None:
            gpus, each = self.arrays.gpus, self.arrays.gpus // self.arrays.nodes
            more = gpus - each * self.arrays.nodes > 0
            unsplit = (each % gpus_per_replica == 0) & (~more | ((each + 1) % gpus_per_replica == 0))
            found = (gpus % gpus_per_replica == 0) & ((gpus_per_replica > each + more) | unsplit)
            self._replicas[gpus_per_replica] = found
        return found

    @cached_property
    def columns_of(self) -> Mapping[str, slice]:
        """The columns of each GPU type, which lie together in the order of their GPUs."""
        ends = np.searchsorted(self.arrays.type_index, np.arange(len(self.arrays.gpu_types) + 1)).tolist()
        return {t: slice(*ends[i : i + 2]) for i, t in enumerate(self.arrays.gpu_types)}

    def columns_in(self, other: ConfigurationSet) -> np.ndarray:
        """Return (configurations,) the column of each in another set; -1 if it is absent or of other goodput.

        The goodput differs where the nodes of a GPU type have another size.
        """
        sizes = dict(zip(other.arrays.gpu_types, other.arrays.gpus_per_node.tolist(), strict=True))
        alike = [
            sizes.get(t) == size for t, size in zip(self.arrays.gpu_types, self.arrays.gpus_per_node, strict=True)
        ]
        found = [other._index.get((c.gpu_type, c.nodes, c.gpus, c.node_gpus), -1) for c in self.items]
        return np.where(np.array(alike, bool)[self.arrays.type_index], np.array(found, np.int64), -1)

    def is_like(self, other: ConfigurationSet) -> bool:
        """Return whether values by column of the other set hold here too. How much fits may differ."""
        if self.items != other.items or not np.array_equal(self.special, other.special):
            return False
        return bool((self.columns_in(other) >= 0).all())

    def of(self, placement: Placement) -> Configuration | None:
        """Return the configuration that a placement realises; None if the cluster now has none such."""
        column = self.index(placement)
        return None if column < 0 else self.items[column]

    def index(self, placement: Placement | None) -> int:
        """Return the column of the configuration that a placement realises, or -1."""
        if placement is None:
            return -1
        gpu_type, shares, by_id = placement.gpu_type, placement.shares, self.cluster.by_id
        if len(shares) == 1:
            node, gpus = by_id.get(shares[0].node_id), shares[0].gpus
            if node is None or node.gpu_type != gpu_type:
                return -1
            part = self._index.get((gpu_type, 1, gpus, 0), -1)
            return part if part >= 0 else self._index.get((gpu_type, 1, gpus, node.gpus), -1)
        nodes = [by_id.get(share.node_id) for share in shares]
        sizes = {node.gpus if node is not None and node.gpu_type == gpu_type else 0 for node in nodes}
        column = self._index.get((gpu_type, len(shares), placement.gpus, max(sizes, default=0)), -1)
        if len(sizes) > 1 or column < 0:
            return -1
        held = tuple(sorted((share.gpus for share in shares), reverse=True))
        return column if held == self.items[column].shape else -1

    def limits(self, held: Iterable[Placement] = ()) -> Limits:
        """Return the limits beside placements that are not to be moved.

        Let f_v be the free GPUs on the nodes v of a type. A set of power-of-two parts and whole nodes can be
        placed if and only if two things hold. For every k, the parts of at least 2^k GPUs take no more than the
        sum over v of floor(f_v / 2^k) * 2^k. (A whole node counts as its own blocks of at least 2^k.) And no more
        whole nodes of each size are taken than are free. Limits that follow from others are left out. So a type
        whose nodes all have the same power of two of GPUs needs only the first. Without placements the object is
        always the same.
        """
        held = tuple(held)
        return self._limits(held) if held else self._empty_limits

    @cached_property
    def _empty_limits(self) -> Limits:
        return self._limits(())

    def _limits(self, held: Iterable[Placement]) -> Limits:
        free = {t: size.copy() for t, size in self._node_gpus.items()}
        for placement in held:
            found = self.of(placement)
            for share in placement.shares:
                # A job that holds a part of whole nodes shares these nodes with nobody.
                t, node = self.cluster.positions.get(share.node_id, ("", 0))
                if t:
                    free[t][node] -= (found and found.node_gpus) or share.gpus
        rows: list[np.ndarray] = []
        capacity: list[float] = []
        types: list[str] = []
        for i, t in enumerate(self.cluster.gpu_types):
            for row, most in self._type_limits(i, self._node_gpus[t], np.maximum(free[t], 0)):
                rows.append(row)
                capacity.append(most)
                types.append(t)
        usage = np.array(rows, dtype=float).reshape(len(rows), len(self))
        return Limits(usage, np.array(capacity, dtype=float), tuple(types))

    def _type_limits(self, gpu_type: int, size: np.ndarray, free: np.ndarray) -> list[tuple[np.ndarray, float]]:
        blocks, whole_nodes = self._blocks
        mine = self.arrays.type_index == gpu_type
        found: list[tuple[np.ndarray, float]] = []
        for k in range(int(size.max()).bit_length()):
            most = float(((free >> k) << k).sum())
            if not found or most < found[-1][1]:
                found.append((np.where(mine, blocks[k], 0), most))
        all_one_size = bool((size == size[0]).all())
        is_free = free == size
        if all_one_size and (is_free.all() or block(int(size[0])) == size[0]):
            return found
        for node_gpus in np.unique(size):
            row = np.where(mine & (whole_nodes[0] == node_gpus), whole_nodes[1], 0)
            if row.any():
                found.append((row, float((is_free & (size == node_gpus)).sum())))
        return found

    @cached_property
    def _node_gpus(self) -> Mapping[str, np.ndarray]:
        """(nodes of the type,) the GPUs of each node, by GPU type."""
        return {t: np.array([node.gpus for node in nodes]) for t, nodes in self.cluster.by_type.items()}

    @cached_property
    def _blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """(k, configurations) GPUs from blocks of at least 2^k, and (2, configurations) node sizes and nodes."""
        node_gpus = np.array([c.node_gpus for c in self.items], dtype=np.int64)
        nodes = np.array([c.nodes for c in self.items], dtype=np.int64)
        part = np.array([block(c.gpus) for c in self.items], dtype=np.int64)
        largest = max((node.gpus for node in self.cluster.nodes), default=1)
        taken = [
            np.where(node_gpus > 0, nodes * ((node_gpus >> k) << k), np.where(part >> k > 0, part, 0))
            for k in range(largest.bit_length())
        ]
        return np.array(taken), np.array([node_gpus, nodes])


def needs(cluster: Cluster, specs: Iterable[JobSpec]) -> tuple[frozenset[tuple[str, int, int]], int]:
    """Return what `ConfigurationSet` must contain for these jobs: its `extra` and `most_gpus`."""
    extra: set[tuple[str, int, int]] = set()
    most = 1
    capacity = cluster.capacity()
    for spec in {want(spec): spec for spec in specs}.values():
        most = max(most, spec.resources.gpus or spec.resources.max_gpus)
        extra |= special_counts(spec, capacity)
    return frozenset(extra), most


def want(spec: JobSpec) -> Hashable:
    """Return all that decides which configurations a job may use. Many jobs share one value."""
    resources, reservation = spec.resources, spec.reservation
    types, per_replica = resources.gpu_types, resources.gpus_per_replica
    return (
        resources.min_gpus,
        resources.max_gpus,
        resources.gpus,
        resources.cpus_per_gpu,
        resources.memory_gib_per_gpu,
        None if types is None else tuple(types),
        per_replica if isinstance(per_replica, int) else tuple(per_replica.items()),
        None if reservation is None else (reservation.gpu_type, reservation.gpus),
        _sizes_of(spec),
    )


def _sizes_of(spec: JobSpec) -> Hashable:
    sizes = spec.sizes
    if sizes is None:
        return None
    return tuple((t, *counts) for t, counts in sizes.items()) if isinstance(sizes, dict) else tuple(sizes)


def special_counts(spec: JobSpec, capacity: Mapping[str, int]) -> set[tuple[str, int, int]]:
    """Return (GPU type, GPUs, GPUs per replica) that one job may hold besides the regular configurations."""
    resources, reservation = spec.resources, spec.reservation
    counts: set[tuple[str, int, int]] = set()
    if reservation is not None:
        per_replica = spec.gpus_per_replica(reservation.gpu_type) or 1
        counts.add((reservation.gpu_type, reservation.gpus, per_replica))
    if spec.sizes is not None:
        return counts | {(t, gpus, 1) for t in capacity for gpus in spec.sizes_on(t) or ()}
    if resources.gpus is None and resources.gpus_per_replica == 1:
        return counts
    for t, total in capacity.items():
        per_replica = spec.gpus_per_replica(t) or 0
        if not per_replica:
            continue
        if resources.gpus is not None:
            counts.add((t, resources.gpus, per_replica))
        elif block(per_replica) != per_replica:
            gpus = per_replica
            while gpus <= min(total, resources.max_gpus):
                counts.add((t, gpus, per_replica))
                gpus *= 2
    return counts


def _regular(gpu_type: str, sizes: Counter[int]) -> Iterable[Configuration]:
    gpus = 1
    while gpus <= max(sizes):
        yield Configuration(1, gpus, gpu_type)
        gpus *= 2
    for size, count in sizes.items():
        for n in range(1 if block(size) != size else 2, count + 1):
            yield Configuration(n, n * size, gpu_type, size)


def _special(gpu_type: str, gpus: int, per_replica: int, sizes: Counter[int]) -> Configuration | None:
    """Return a configuration for a count: a part of a node, else one whole node, else as few nodes as hold it.

    A replica that fits a node is not spread over two. The result is None if no nodes hold the count.
    """
    if not sizes:
        return None
    if block(gpus) <= max(sizes):
        return Configuration(1, gpus, gpu_type)
    for size in sorted(sizes):
        if gpus <= size:
            return Configuration(1, gpus, gpu_type, size)
    for size in sorted(sizes, key=lambda s: (-s, -sizes[s])):
        nodes = -(-gpus // size)
        if 1 < per_replica <= size and gpus % per_replica == 0:
            replicas = gpus // per_replica
            nodes = next(
                n for n in range(nodes, replicas + 1) if replicas % n == 0 and replicas // n * per_replica <= size
            )
        if nodes <= sizes[size]:
            return Configuration(nodes, gpus, gpu_type, size)
    return None
