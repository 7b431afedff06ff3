"""Where one replica runs: one worker actor inside a node's lease."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class Slot:
    """The place of one worker: GPUs of a node, by position. No two slots of a job have a GPU in common.

    Slots are compared by place: other amounts of CPUs and memory, or a partner on the same GPUs, make no other
    slot. They sort by node, which keeps the ranks of a node together.
    """

    node_id: str  # Ray node id, hex
    lease_id: str  # placement group id of the node's lease, hex
    devices: tuple[int, ...]  # of this one replica
    gpu_type: str
    emulated: bool = False  # trained on CPU, paced
    cpus: float = field(default=0.0, compare=False)
    memory_gib: float = field(default=0.0, compare=False)
    share: float = field(default=1.0, compare=False)  # of each of its GPUs
    part_cpus: float = field(default=0.0, compare=False)  # its GPUs' part of the node's, in a profile run

    @property
    def gpus(self) -> int:
        return len(self.devices)

    @property
    def weight(self) -> float:
        """GPUs, each counted by the part of it that is held; a whole number where none is shared."""
        return len(self.devices) if self.share == 1.0 else len(self.devices) * self.share
