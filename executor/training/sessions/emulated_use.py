"""The pace of a training process on an emulated node, and what it tells the worker of the emulated GPU."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from ....estimators.pace import Pace
from ...protocol.messages import GPU_TYPE, PACE_JSON, Paced
from .channel import Channel

TOLD_S = 1.0  # at most so often


def pace_of_process(channel: Channel) -> Pace | None:
    """Return the pace that the environment asks for, and tell its worker how busy the GPU is; None: a real device.

    Raises ValueError for a pace that is not known.
    """
    pace = Pace.from_json(os.environ.get(PACE_JSON), os.environ.get(GPU_TYPE, ""))
    if pace is not None:
        pace.on_step = EmulatedUse(channel).on_step
    return pace


class EmulatedUse:
    """Passes on what a pace says after each step, at most once a second."""

    def __init__(self, channel: Channel, clock: Callable[[], float] = time.monotonic) -> None:
        self._channel = channel
        self._clock = clock
        self._told_s = clock()

    def on_step(self, busy_s: float, step_s: float) -> None:
        """Take note of a step: seconds busy since the process began, and those of this step."""
        now = self._clock()
        if now - self._told_s >= TOLD_S:
            self._told_s = now
            self._channel.send(Paced(busy_s, step_s))
