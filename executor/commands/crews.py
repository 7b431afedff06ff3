"""Which workers a command has: one per node, with all GPUs of the job there. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...core.doors import Processes
from ...core.slot import Slot


@dataclass(frozen=True)
class CrewPlan:
    """The processes of one node: the slots they are in, and how many they are."""

    slots: tuple[Slot, ...]
    processes: int

    @property
    def node_id(self) -> str:
        return self.slots[0].node_id

    @property
    def place(self) -> Slot:
        """Return one slot with all GPUs, CPUs and memory of the crew."""
        return replace(
            self.slots[0],
            devices=tuple(sorted(device for slot in self.slots for device in slot.devices)),
            cpus=sum(slot.cpus for slot in self.slots),
            memory_gib=sum(slot.memory_gib for slot in self.slots),
        )


def crew_plans(slots: Sequence[Slot], processes: Processes) -> list[CrewPlan]:
    """Return a plan for each node of the slots, by node id; ranks follow this order."""
    nodes: dict[str, list[Slot]] = {}
    for slot in sorted(slots):
        nodes.setdefault(slot.node_id, []).append(slot)
    per_slot = processes is Processes.GPU
    return [CrewPlan(tuple(here), len(here) if per_slot else 1) for here in nodes.values()]
