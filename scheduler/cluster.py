"""The cluster as a policy sees it: nodes, each with GPUs of exactly one type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, order=True)
class Node:
    """A machine with GPUs of one type. Nodes sort by id, which is how ties are broken everywhere."""

    id: str
    gpu_type: str
    gpus: int
    cpus: float = 0.0
    memory_gib: float = 0.0
    emulated: bool = False  # paced on CPU; labelled so wherever it is shown


@dataclass(frozen=True)
class Cluster:
    """All nodes that may be used this round, sorted by id."""

    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        ids = [node.id for node in self.nodes]
        if len(set(ids)) != len(ids):
            raise ValueError(f"nodes: duplicate ids in {sorted(ids)}")
        object.__setattr__(self, "nodes", tuple(sorted(self.nodes)))

    @cached_property
    def gpu_types(self) -> tuple[str, ...]:
        return tuple(sorted({node.gpu_type for node in self.nodes if node.gpus > 0}))

    @cached_property
    def by_id(self) -> Mapping[str, Node]:
        return {node.id: node for node in self.nodes}

    def of_type(self, gpu_type: str) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.gpu_type == gpu_type and node.gpus > 0)

    def capacity(self) -> dict[str, int]:
        """GPUs per type."""
        return {t: sum(node.gpus for node in self.of_type(t)) for t in self.gpu_types}
