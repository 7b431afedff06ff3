"""What a worker's process is told of the CPUs and the memory of its slot. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.resources import TOLERANCE
from ..core.slot import Slot
from ..estimators.sensitivity.model import Sensitivity

GIB = 2**30
PROCESS_GIB = 2.0  # of a training process with its loader workers, where that was not measured


@dataclass(frozen=True)
class Provision:
    """CPUs of a slot, how many loader workers read for it, and the bytes of samples on its node.

    cpus: whole CPUs; 0: less than one, so that nobody is kept to any.
    cache_bytes: for all processes of the job on the node; None: the node states no memory.
    part_cpus: the GPUs' part of the node's CPUs, in a profile run.
    """

    cpus: int = 0
    workers: int = 0
    cache_bytes: int | None = None
    part_cpus: int = 0


NOTHING_KNOWN = Provision()


def provision_of(slot: Slot, slots: Iterable[Slot], process_gib: float | None = None) -> Provision:
    """Return what the worker in a slot gets, beside the job's other slots.

    All workers of a job have as many loader workers, since they draw as far ahead: those of the fewest CPUs.

    Args:
        slots: of the job, this one included.
        process_gib: memory of one training process; None: it was not measured.
    """
    slots = [*slots]
    workers = min((_whole(one.cpus) for one in slots), default=0)
    here = [one for one in slots if one.node_id == slot.node_id]
    memory_gib = sum(one.memory_gib for one in here)
    need_gib = len(here) * (PROCESS_GIB if process_gib is None else process_gib)
    cache = int(max(memory_gib - need_gib, 0.0) * GIB) if memory_gib > 0 else None
    return Provision(_whole(slot.cpus), workers, cache, _whole(slot.part_cpus))


def input_rate(slots: Sequence[Slot], sensitivity: Sensitivity | None) -> float:
    """Return the samples/s that loader workers of all these slots prepare; inf: nobody knows."""
    workers = min((_whole(one.cpus) for one in slots), default=0)
    if sensitivity is None or not workers:
        return math.inf
    gpus, memory_gib = sum(one.gpus for one in slots), sum(one.memory_gib for one in slots)
    return float(sensitivity.rate(gpus, np.array(workers * len(slots)), np.array(memory_gib or math.inf)))


def _whole(cpus: float) -> int:
    return math.floor(cpus + TOLERANCE)
