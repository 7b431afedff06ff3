"""Samples the GPUs of one slot beside the process that uses them, whatever that process is.

There is one sampler per worker, and each GPU that is held whole is in one worker's slot. So a GPU is read once a
second, however many workers a node has.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from ...core.usage import NO_USAGE, IdleMinutes, Mean, Usage
from .gauge import Gauge, Reading

log = logging.getLogger(__name__)

SAMPLE_S = 1.0
# The first sums are told after so long, and then twice as long, up to the interval of reports.
FIRST_S = 2.0
MOST_S = 30.0


class Growing:
    """Times that come at growing intervals: `due` tells whether the next one has come."""

    def __init__(self, now: float, first_s: float, most_s: float) -> None:
        self._last_s, self._interval_s, self._most_s = now, first_s, most_s

    def due(self, now: float) -> bool:
        return now - self._last_s >= self._interval_s

    def done(self, now: float) -> None:
        """Wait for the next one."""
        self._last_s, self._interval_s = now, min(2 * self._interval_s, self._most_s)


class UsageSums:
    """Adds up the readings of the GPUs of one slot. `share`: the part of each GPU that it holds."""

    def __init__(self, emulated: bool, share: float = 1.0) -> None:
        self._emulated = emulated
        self._share = share
        self._idle: list[IdleMinutes] = []
        self._sum = NO_USAGE

    def add(self, readings: Sequence[Reading], seconds: float) -> None:
        """Add one reading of each GPU, for the seconds since the last."""
        while len(self._idle) < len(readings):
            self._idle.append(IdleMinutes(self._share))
        for reading, idle in zip(readings, self._idle, strict=False):
            self._sum += Usage(
                seconds,
                Mean.of(reading.gpu_util, seconds),
                Mean.of(reading.memory_util, seconds),
                Mean.of(reading.memory_gib, seconds),
                idle.add(reading.gpu_util, seconds),
                self._emulated,
            )

    def hold(self, share: float) -> None:
        """Count for another part of each GPU from now on."""
        self._share = share
        for idle in self._idle:
            idle.share = share

    def take(self) -> Usage:
        """Return what was added since the last call."""
        found, self._sum = self._sum, NO_USAGE
        return found


class Sampler:
    """Reads a gauge once a second in a thread of its own, and tells the sums now and then.

    Args:
        opened: opens the gauge, in that thread; None: nothing can be known, and nothing is told.
        tell: receives sums since the last call of it.
        share: the part of each GPU that the slot holds.
    """

    def __init__(
        self,
        opened: Callable[[], Gauge | None],
        tell: Callable[[Usage], None],
        share: float = 1.0,
        interval_s: float = SAMPLE_S,
    ) -> None:
        self._opened = opened
        self._tell = tell
        self._share = share
        self._interval_s = interval_s
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._gauge: Gauge | None = None
        self._thread = threading.Thread(target=self._run, name="coadapt-usage", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def flush(self) -> None:
        """Tell what was seen until now."""
        with self._lock:
            if self._gauge is not None:
                self._sample(self._gauge)
                self._tell_sums()

    def hold(self, share: float) -> None:
        """Count for another part of each GPU from now on."""
        with self._lock:
            self._share = share
            if self._gauge is not None:
                self._sample(self._gauge)
                self._gauge.hold(share)
                self._sums.hold(share)

    def close(self) -> None:
        """Tell what was seen until now, and end."""
        if not self._closed.is_set():
            self._closed.set()
            self.flush()

    def _run(self) -> None:
        gauge = self._opened()
        if gauge is None:
            return
        with self._lock:
            now = time.monotonic()
            gauge.hold(self._share)
            self._sums, self._sampled_s = UsageSums(gauge.emulated, self._share), now
            self._telling = Growing(now, FIRST_S, MOST_S)
            self._gauge = gauge
        while not self._closed.wait(self._interval_s):
            with self._lock:
                self._sample(gauge)
                if self._telling.due(self._sampled_s):
                    self._telling.done(self._sampled_s)
                    self._tell_sums()

    def _sample(self, gauge: Gauge) -> None:
        now = time.monotonic()
        try:
            readings = gauge.read()
        except Exception as error:  # a driver's fault is none of the job's
            log.warning("the use of GPUs could not be read: %s", error)
            readings = []
        self._sums.add(readings, now - self._sampled_s)
        self._sampled_s = now

    def _tell_sums(self) -> None:
        usage = self._sums.take()
        if usage.seconds > 0:
            self._tell(usage)
