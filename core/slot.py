"""Where one replica runs: one worker actor inside a node's lease."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Slot:
    """Room for one replica. Slots sort by node, which keeps the ranks of a node together.

    `index` tells the slots of one job on one node apart. Whoever hands out slots keeps it stable, so that
    a replica that stays is recognised as the same slot.
    """

    node_id: str  # Ray node id, hex
    lease_id: str  # placement group id of the node's lease, hex
    gpus: int  # of this one replica
    gpu_type: str
    emulated: bool = False  # trained on CPU, paced
    cpus: float = 0.0
    index: int = 0
    memory_gib: float = 0.0
