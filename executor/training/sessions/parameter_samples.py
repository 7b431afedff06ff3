"""Compares, now and then, a sample of one parameter between replicas."""

from __future__ import annotations

import struct
import time

from torch import Tensor

from ..collective.group import Group
from ..sharding.local import local
from ..state.prepared import Prepared
from ..state.training_state import Position

SAMPLE_INTERVAL_S = 2.0  # between two looks at whether replicas hold the same parameters


class ParameterSamples:
    """Takes samples on rank 0, and compares them on the others."""

    def __init__(self, prepared: Prepared, position: Position) -> None:
        self._prepared, self._position = prepared, position
        self._taken, self._taken_s = 0, 0.0

    def take(self, group: Group) -> tuple[int, int]:
        """Return the number of a parameter and what it looks like; (-1, 0) where no sample is due."""
        now = time.monotonic()
        if group.world_size == 1 or now - self._taken_s < SAMPLE_INTERVAL_S:
            return -1, 0
        self._taken_s = now
        self._taken += 1
        parameters = self._prepared.parameters()
        number = self._taken % len(parameters)
        return number, sample_of(parameters[number])

    def compare(self, group: Group, number: int, sample: int) -> None:
        """Raise `Disagreement` where this replica's parameter differs from rank 0's sample."""
        if group.rank % group.processes:
            return  # it holds other shards
        parameter = self._prepared.parameters()[number]
        if not alike(sample, sample_of(parameter)):
            name, position = self._prepared.name_of(parameter), self._position
            group.differ(
                f"{name} is not the same on replicas 0 and {group.rank} in batch {position.batch} of epoch "
                f"{position.epoch}; something changes it that is not made of combined gradients, such as a "
                "value of one replica's own samples"
            )


def sample_of(parameter: Tensor) -> int:
    """Return some elements of a parameter as a whole number that travels."""
    some = local(parameter).detach().reshape(-1)[:4096].double()
    return struct.unpack("q", struct.pack("d", float(some.square().mean().sqrt() + some.mean())))[0]


def alike(first: int, second: int) -> bool:
    """Return whether two samples are of the same parameter, apart from the round-off of different machines."""
    a, b = (struct.unpack("d", struct.pack("q", sample))[0] for sample in (first, second))
    if a != a or b != b:
        return a != a and b != b
    return abs(a - b) <= 1e-3 * max(abs(a), abs(b)) + 1e-9
