"""What a sampler reads: one reading per GPU of a slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Reading:
    """What one GPU does for a job now. A quantity that nobody tells is None, never 0."""

    gpu_util: float | None = None  # part of the time in which the GPU works, 0..1
    memory_util: float | None = None  # part of the time in which its memory is read or written, 0..1
    memory_gib: float | None = None


UNKNOWN = Reading()


class Gauge(Protocol):
    """Read the GPUs of one slot."""

    @property
    def emulated(self) -> bool: ...

    def hold(self, share: float) -> None:
        """Take note that the slot holds another part of each GPU."""

    def read(self) -> Sequence[Reading]:
        """Return one reading for each GPU: since the last call, or of about the last second."""
