"""The cluster as a policy sees it: nodes, each with GPUs of exactly one type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from .wording import pool_called


@dataclass(frozen=True, order=True)
class Node:
    """A machine with GPUs of one type. Nodes sort by id, which is how ties are broken everywhere."""

    id: str
    gpu_type: str
    gpus: int
    cpus: float = 0.0
    memory_gib: float = 0.0
    emulated: bool = False  # paced on CPU; labelled so wherever it is shown
    pool: str = ""  # the set of nodes it belongs to; "": nodes without a pool
    machine: str = ""  # a name that survives a reboot, which `id` may not; "": `id` does

    @property
    def machine_name(self) -> str:
        """Return the name that survives a reboot."""
        return self.machine or self.id


@dataclass(frozen=True, eq=False)
class Cluster:
    """All nodes that may be used this round, sorted by id. Equal nodes make equal clusters.

    pool: whose nodes these are, where they are a part of a cluster; "": of no pool; None: they are all nodes.
    """

    nodes: tuple[Node, ...]
    pool: str | None = None

    def __post_init__(self) -> None:
        ids = [node.id for node in self.nodes]
        if len(set(ids)) != len(ids):
            raise ValueError(f"nodes: duplicate ids in {sorted(ids)}")
        object.__setattr__(self, "nodes", tuple(sorted(self.nodes, key=attrgetter("id"))))

    # Policies compare clusters every round and keep things by them: nearly always the same object.
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self.nodes == other.nodes if isinstance(other, Cluster) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Cluster], tuple[tuple[Node, ...], str | None]]:
        # What is kept by the way is cheap to find again, and a hash is of one process.
        return Cluster, (self.nodes, self.pool)

    @cached_property
    def _hash(self) -> int:
        return hash(self.nodes)

    @cached_property
    def gpu_types(self) -> tuple[str, ...]:
        return tuple(sorted({node.gpu_type for node in self.nodes if node.gpus > 0}))

    @cached_property
    def by_id(self) -> Mapping[str, Node]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def by_type(self) -> Mapping[str, tuple[Node, ...]]:
        """Nodes with GPUs."""
        found: dict[str, list[Node]] = {t: [] for t in self.gpu_types}
        for node in self.nodes:
            if node.gpus > 0:
                found[node.gpu_type].append(node)
        return {t: tuple(nodes) for t, nodes in found.items()}

    @cached_property
    def largest_nodes(self) -> Mapping[str, int]:
        """GPUs of the largest node of each GPU type, in order of types."""
        return {t: max(node.gpus for node in nodes) for t, nodes in self.by_type.items()}

    @cached_property
    def positions(self) -> Mapping[str, tuple[str, int]]:
        """Node id -> its GPU type and its position in `of_type`."""
        return {node.id: (t, i) for t, nodes in self.by_type.items() for i, node in enumerate(nodes)}

    @cached_property
    def pools(self) -> Mapping[str, Cluster]:
        """Each pool's nodes by its name; a cluster of one pool is itself."""
        names = sorted({node.pool for node in self.nodes})
        if len(names) == 1:
            return {names[0]: self}
        return {name: Cluster(tuple(node for node in self.nodes if node.pool == name), name) for name in names}

    def of_pool(self, name: str) -> Cluster:
        """Return the nodes of a pool; none where there is no such pool."""
        return self.pools.get(name) or Cluster((), name)

    @property
    def called(self) -> str:
        """What sentences for people call these nodes."""
        if self.pool is None:
            return "the cluster"
        return pool_called(self.pool)

    def of_type(self, gpu_type: str) -> tuple[Node, ...]:
        return self.by_type.get(gpu_type, ())

    def capacity(self) -> dict[str, int]:
        """Return the GPUs of each type."""
        return dict(self._capacity)

    @cached_property
    def _capacity(self) -> Mapping[str, int]:
        return {t: sum(node.gpus for node in nodes) for t, nodes in self.by_type.items()}
