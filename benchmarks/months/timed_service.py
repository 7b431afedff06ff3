"""The scheduler's actor with stub executors, which also says how long its ticks, rounds and reports take."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import psutil
from coadapt.core.events import EventKind
from coadapt.core.settings import Settings
from coadapt.executor.protocol.job_events import Sent
from coadapt.scheduler.service import SchedulerService, assembly
from coadapt.scheduler.store.events import Event

from .stub_executors import RemoteStubs

MOST = 100_000


class TimedService(SchedulerService):
    """As `SchedulerService`. Its executors are stubs, and its ticks are timed."""

    def __init__(self, settings: Settings, begun: str = "") -> None:
        began_s = time.monotonic()
        assembly.Executors = RemoteStubs  # type: ignore[assignment, misc]  # of this process only
        self._ticks: deque[float] = deque(maxlen=MOST)
        self._rounds: deque[float] = deque(maxlen=MOST)
        self._reports: deque[float] = deque(maxlen=MOST)
        super().__init__(settings, begun)
        self._start_s = time.monotonic() - began_s

    def _step(self) -> None:
        cycle = self._parts.cycle
        rounds, began_s = cycle.rounds, time.perf_counter()
        super()._step()
        took_s = time.perf_counter() - began_s
        (self._ticks if cycle.rounds == rounds else self._rounds).append(took_s)

    def on_event(self, job_id: str, message: object, life: int = 0) -> Sent:
        began_s = time.thread_time()
        sent = super().on_event(job_id, message, life)
        self._reports.append(time.thread_time() - began_s)
        return sent

    def forget_times(self) -> None:
        """Count from now on."""
        for times in (self._ticks, self._rounds, self._reports):
            times.clear()

    def times(self) -> dict[str, Any]:
        """Return seconds of ticks and rounds, CPU seconds of events, and what the process has taken so far."""
        process = psutil.Process()
        cpu = process.cpu_times()
        return {
            "ticks": list(self._ticks),
            "rounds": list(self._rounds),
            "reports": list(self._reports),
            "start_s": self._start_s,
            "cpu_s": cpu.user + cpu.system,
            "pid": process.pid,
        }

    def happen(self, first: int, count: int) -> int:
        """Log so many events of running jobs, one after the other, each with its number. Return how many."""
        store, now = self._parts.store, self._parts.clock.steady_s()
        jobs = [job.id for job in store.unretired.values() if job.group]
        told = range(first, first + count) if jobs else ()
        store.log(*(Event(EventKind.FAILING, now, jobs[at % len(jobs)], {"text": f"n {at}"}) for at in told))
        return len(told)

    def deliveries(self) -> dict[str, float]:
        """Return the figures of events out."""
        return dict(self._parts.deliveries.figures())

    def running(self) -> int:
        """Return how many jobs train."""
        return sum(bool(job.group) for job in self._parts.store.unretired.values())
