"""Reads emulated GPUs: what the pace of a training process implies for the GPU type that it stands for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from .gauge import UNKNOWN, Reading


class PacedGauge:
    """Tells which part of the time the GPUs of a paced process would be busy.

    About once a second the process tells how long its GPU would have been busy so far. A step that goes on counts
    as busy for as long as the last one took, so that a step of minutes is no idleness. A moment's reading may be
    more than 1; over some seconds they are right.

    Args:
        gpus: how many of them. They are equally busy.
        reading: returns what one does for the job in a part of the time.
    """

    emulated = True

    def __init__(
        self,
        gpus: int,
        reading: Callable[[float], Reading] = Reading,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gpus, self._reading = gpus, reading
        self._clock = clock
        self._told = (0.0, 0.0, clock())  # busy seconds, seconds of the last step, and when that was told
        self._read_s = clock()
        self._busy_s = 0.0  # of all readings

    def told(self, busy_s: float, step_s: float) -> None:
        """Take note of what the process says: seconds busy since its start, and those of its last step."""
        self._told = (busy_s, step_s, self._clock())

    def read(self) -> Sequence[Reading]:
        """Return the mean since the last call."""
        now = self._clock()
        told_s, step_s, at_s = self._told
        busy_s = max(told_s + min(now - at_s, step_s), self._busy_s)
        seconds = now - self._read_s
        util = (busy_s - self._busy_s) / seconds if seconds > 0 else None
        if util is None:
            return [UNKNOWN] * self._gpus
        self._read_s, self._busy_s = now, busy_s
        return [self._reading(util)] * self._gpus

    def hold(self, share: float) -> None:
        """Do nothing: the process says how busy it is, whatever part it holds."""
