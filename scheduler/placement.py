"""Where a configuration goes: concrete GPUs on concrete nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class NodeShare:
    """What a job holds of one node. `share` < 1: a fraction of each GPU (packing policies)."""

    node_id: str
    gpus: int
    cpus: float = 0.0
    memory_gib: float = 0.0
    share: float = 1.0


@dataclass(frozen=True)
class Placement:
    """Shares sorted by node id, all of one GPU type."""

    gpu_type: str
    shares: tuple[NodeShare, ...]

    def __post_init__(self) -> None:
        if len(self.shares) > 1:
            object.__setattr__(self, "shares", tuple(sorted(self.shares)))

    @property
    def gpus(self) -> int:
        return sum(share.gpus for share in self.shares)

    @property
    def nodes(self) -> int:
        return len(self.shares)

    @property
    def by_node(self) -> dict[str, int]:
        """GPUs held on each node."""
        return {share.node_id: share.gpus for share in self.shares}
