"""The time of the scheduler. No other module of this room asks a clock of the system.

Records, waits and time-outs go by a steady clock. It counts seconds since 1970, but it never jumps, whatever is
done to the machine's clock, and it goes on across restarts of the service. People see wall time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """What the cycle knows of time."""

    def wall_s(self) -> float:
        """Return seconds since the epoch by the machine's clock, which may jump: for people."""

    def steady_s(self) -> float:
        """Return seconds since the epoch that never jump and go on across restarts: for records and waits."""

    def monotonic_s(self) -> float:
        """Return seconds that never jump, since some moment of this process: for durations."""


class SystemClock:
    """The machine's own clocks.

    Args:
        before: what `saved` returned in an earlier process; None: there was none.
    """

    def __init__(self, before: str | None = None) -> None:
        self._ahead_s = _begin_s(before, time.time(), _since_boot_s(), _boot_id()) - _since_boot_s()

    def wall_s(self) -> float:
        """Return seconds since the epoch by the machine's clock."""
        return time.time()

    def steady_s(self) -> float:
        """Return seconds since the epoch that never jump."""
        return _since_boot_s() + self._ahead_s

    def monotonic_s(self) -> float:
        """Return seconds since some fixed moment."""
        return time.monotonic()

    def saved(self) -> str:
        """Return what the clock of the next process begins with."""
        since_boot_s = _since_boot_s()
        return json.dumps({"steady_s": since_boot_s + self._ahead_s, "boot_s": since_boot_s, "boot": _boot_id()})


def _begin_s(before: str | None, wall_s: float, since_boot_s: float, boot: str) -> float:
    """Return the steady time at the start of a process. Pure.

    On a machine that was not booted since, it goes on exactly. After a boot, or on another machine, it is wall
    time, but never before what it was.
    """
    found = _read(before)
    if found is None:
        return wall_s
    if boot and found["boot"] == boot and since_boot_s >= found["boot_s"]:
        return float(found["steady_s"] + since_boot_s - found["boot_s"])
    return max(wall_s, float(found["steady_s"]))


def _read(text: str | None) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text or "")
        return {"steady_s": float(found["steady_s"]), "boot_s": float(found["boot_s"]), "boot": str(found["boot"])}
    except (ValueError, KeyError, TypeError):
        return None


def _since_boot_s() -> float:
    """Return seconds since the machine was booted, those included in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
