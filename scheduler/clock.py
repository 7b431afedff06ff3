"""The time of the scheduler: wall seconds for records, monotonic seconds for waits."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the cycle knows of time."""

    def wall_s(self) -> float:
        """Return seconds since the epoch, as records and events keep them."""

    def monotonic_s(self) -> float:
        """Return seconds that never jump, for waits and durations."""


class SystemClock:
    """The machine's own clocks."""

    def wall_s(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def monotonic_s(self) -> float:
        """Return seconds since some fixed moment."""
        return time.monotonic()
