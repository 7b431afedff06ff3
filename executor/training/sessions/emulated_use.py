"""The pace of a training process on an emulated node, and what it tells the worker of the emulated GPU."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import torch

from ....estimators.pace import Pace
from ...protocol.messages import GPU_TYPE, NO_ROOM, PACE_JSON, Beside, Paced
from .channel import Channel

TOLD_S = 1.0  # at most so often


def pace_of_process(channel: Channel) -> Pace | None:
    """Return the pace that the environment asks for, and tell its worker how busy the GPU is; None: a real device.

    Beside another job on its GPU, the process is slower from the moment on that its worker names.

    Raises ValueError for a pace that is not known, and torch.OutOfMemoryError where the GPU has no room for it.
    """
    if no_room := os.environ.get(NO_ROOM):
        raise torch.OutOfMemoryError(no_room)
    pace = Pace.from_json(os.environ.get(PACE_JSON), os.environ.get(GPU_TYPE, ""))
    if pace is not None:
        pace.on_step = EmulatedUse(channel).on_step
        clock = GpuClock()
        pace.clock, pace.sleep = clock.now, clock.sleep
        channel.hear_beside(clock.beside)
    return pace


class GpuClock:
    """Counts the seconds in which an emulated GPU works for this process.

    It goes slower than time while another job is on the GPU.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._speed, self._since_s = 1.0, clock()
        self._worked_s = self._since_s

    def now(self) -> float:
        """Return the seconds that the GPU has worked, from any beginning."""
        with self._changed:
            return self._at(self._clock())

    def sleep(self, seconds: float) -> None:
        """Return when the GPU has worked so long."""
        with self._changed:
            until_s = self._at(self._clock()) + seconds
            while (left_s := until_s - self._at(self._clock())) > 0:
                self._changed.wait(left_s / self._speed)

    def beside(self, command: Beside) -> None:
        """Go at another speed, from a moment on that may have passed."""
        with self._changed:
            at_s = min(max(command.since_s, self._since_s), self._clock())
            self._worked_s, self._since_s, self._speed = self._at(at_s), at_s, command.speed
            self._changed.notify_all()

    def _at(self, time_s: float) -> float:
        return self._worked_s + (time_s - self._since_s) * self._speed


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
