"""Reads emulated GPUs of a process that says nothing of them: what its job file says that it uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .gauge import Reading


class EmulatedGauge:
    """Tells what a job uses of its emulated GPUs, less where another job slows it.

    Args:
        gpus: how many of them. All are used alike.
        reading: returns what one does in a part of the time.
        speed: returns how fast the job is now, over that alone.
    """

    emulated = True

    def __init__(self, gpus: int, reading: Callable[[float], Reading], speed: Callable[[], float]) -> None:
        self._gpus, self._reading, self._speed = gpus, reading, speed

    def hold(self, share: float) -> None:
        """Do nothing: what its job uses is known, whatever part it holds."""

    def read(self) -> Sequence[Reading]:
        """Return what each GPU does."""
        return [self._reading(self._speed())] * self._gpus
