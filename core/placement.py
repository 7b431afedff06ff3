"""Where a configuration goes: concrete GPUs on concrete nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter


@dataclass(frozen=True, order=True, slots=True)
class NodeShare:
    """What a job holds of one node: GPUs, CPUs and memory.

    `share`: the part of each GPU, in (0, 1]. `devices`: which GPUs, by position; empty where only their number is
    chosen.
    """

    node_id: str
    gpus: int
    cpus: float = 0.0
    memory_gib: float = 0.0
    share: float = 1.0
    devices: tuple[int, ...] = ()


_ORDER = attrgetter("node_id", "gpus", "cpus", "memory_gib", "share", "devices")


@dataclass(frozen=True)
class Placement:
    """Shares sorted by node id, all of one GPU type."""

    gpu_type: str
    shares: tuple[NodeShare, ...]

    def __post_init__(self) -> None:
        if len(self.shares) > 1:
            object.__setattr__(self, "shares", tuple(sorted(self.shares, key=_ORDER)))

    @property
    def gpus(self) -> int:
        shares = self.shares
        return shares[0].gpus if len(shares) == 1 else sum(share.gpus for share in shares)

    @property
    def weight(self) -> float:
        """GPUs, each counted by the part of it that is held; a whole number where none is shared."""
        return sum(share.gpus if share.share == 1.0 else share.gpus * share.share for share in self.shares)

    @property
    def nodes(self) -> int:
        return len(self.shares)

    @cached_property
    def by_node(self) -> Mapping[str, int]:
        """GPUs held on each node."""
        return {share.node_id: share.gpus for share in self.shares}

    @cached_property
    def devices(self) -> frozenset[tuple[str, int]]:
        """The GPUs that it names, as (node id, position)."""
        return frozenset((share.node_id, device) for share in self.shares for device in share.devices)

    @cached_property
    def place(self) -> tuple[str, tuple[tuple[str, int, tuple[int, ...]], ...]]:
        """The GPUs alone: their type, and on each node their number and their positions."""
        return self.gpu_type, tuple((share.node_id, share.gpus, share.devices) for share in self.shares)

    def with_share(self, part: float) -> Placement:
        """Return the same GPUs, each held to another part, in (0, 1]."""
        return Placement(self.gpu_type, tuple(replace(share, share=part) for share in self.shares))


def same_place(a: Placement | None, b: Placement | None) -> bool:
    """Return whether two placements are the same GPUs: neither a partner nor other CPUs and memory are a move.

    One that names no devices leaves open which of its nodes' GPUs they are.
    """
    if a is None or b is None:
        return a is b
    if a.devices and b.devices:
        return a == b or a.place == b.place
    return a.gpu_type == b.gpu_type and a.by_node == b.by_node
