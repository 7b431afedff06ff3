"""Measures how long optimizer steps take, and how much of that is waiting for the all-reduce or for input.

The clock is perf_counter on a CPU. On a GPU it is events recorded in the stream. They are read only when the
device has long passed them, so measuring never makes the host wait.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from ....core.reports import StepRow

# A step farther from the median than this many scaled median deviations is left out of the mean.
OUTLIER_DEVIATIONS = 5.0
# A step within this share of the median is no outlier, however steady the steps are.
OUTLIER_SHARE = 0.1

Key = tuple[int, int, int, int]  # nodes, replicas, local_bsz, accumulation


class _Clock(Protocol):
    def mark(self) -> Any: ...
    def passed(self, mark: Any) -> bool: ...
    def seconds(self, first: Any, last: Any) -> float: ...
    def release(self, marks: Sequence[Any]) -> None: ...


class _HostClock:
    def mark(self) -> float:
        return time.perf_counter()

    def passed(self, mark: float) -> bool:
        return True

    def seconds(self, first: float, last: float) -> float:
        return last - first

    def release(self, marks: Sequence[float]) -> None:
        pass


class _CudaClock:
    """Events of one device, which are used again once they were read."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._free: list[torch.cuda.Event] = []

    def mark(self) -> torch.cuda.Event:
        event = self._free.pop() if self._free else torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def passed(self, mark: torch.cuda.Event) -> bool:
        return mark.query()

    def seconds(self, first: torch.cuda.Event, last: torch.cuda.Event) -> float:
        return first.elapsed_time(last) / 1000

    def release(self, marks: Sequence[torch.cuda.Event]) -> None:
        self._free.extend(marks)


@dataclass
class _Step:
    start: Any
    backward: Any = None
    synced: Any = None
    end: Any = None
    input: list[Any] = field(default_factory=list)  # before and after each wait for loader workers

    def marks(self) -> list[Any]:
        own = [mark for mark in (self.start, self.backward, self.synced, self.end) if mark is not None]
        return own + self.input


class StepTimer:
    """Times the steps of one rank, gathered per (nodes, replicas, local_bsz, accumulation).

    Per step the calls are `start_step`, then `backward_done` or `sync_started`, then `sync_done`, then
    `end_step`.
    `backward_done` says that the last local gradient is there. `sync_started` says that the all-reduce of a
    bucket was launched. The last call of each counts.
    The time from there to `sync_done` is the sync time; a step without these calls has none.
    Between `input_asked` and `input_there` loader workers are waited for.
    The first `warmup` steps after a change of group or batch are skipped: caches, allocators and connections
    make them slow.
    """

    def __init__(self, device: torch.device | str = "cpu", warmup: int = 2) -> None:
        self.device = torch.device(device)
        self.warmup = warmup
        self._clock: _Clock = _CudaClock(self.device) if self.device.type == "cuda" else _HostClock()
        self._step: _Step | None = None
        self._key: Key | None = None
        self._skip = warmup
        self._pending: deque[tuple[Key, _Step, float | None]] = deque()
        self._times: dict[Key, list[tuple[float, float, float]]] = defaultdict(list)

    def start_step(self) -> None:
        """Begin a step; forget one that was not ended because it was undone or interrupted."""
        self._step = _Step(self._clock.mark())

    def input_asked(self) -> None:
        """Note that the next batch is asked of loader workers."""
        if self._step is not None:
            self._step.input.append(self._clock.mark())

    input_there = input_asked  # each wait has two marks

    def backward_done(self) -> None:
        if self._step is not None and self._step.backward is None:
            self._step.backward = self._clock.mark()

    def sync_started(self) -> None:
        """Note that an all-reduce was launched, for callers that do not know which bucket is the last."""
        if self._step is not None:
            if self._step.backward is not None:
                self._clock.release([self._step.backward])
            self._step.backward = self._clock.mark()

    def sync_done(self) -> None:
        if self._step is not None:
            if self._step.synced is not None:
                self._clock.release([self._step.synced])
            self._step.synced = self._clock.mark()

    def end_step(
        self,
        nodes: int,
        replicas: int,
        local_bsz: int,
        accumulation: int,
        sync_time_s: float | None = None,
    ) -> None:
        """End the step. `sync_time_s` replaces the measured time, as that of an emulated GPU does."""
        step, self._step = self._step, None
        if step is None:
            return
        key = (nodes, replicas, local_bsz, accumulation)
        if key != self._key:
            self._key, self._skip = key, max(self._skip, self.warmup)
        if self._skip > 0:
            self._skip -= 1
            self._clock.release(step.marks())
            return
        step.end = self._clock.mark()
        self._pending.append((key, step, sync_time_s))
        self._settle()

    def regrouped(self) -> None:
        """Forget what is under way, because the group changed, and skip the next steps as warm-up."""
        self._step, self._skip = None, self.warmup

    def last_step_s(self) -> float | None:
        """Return the time of the last step read, in seconds; None right after `rows`.

        A GPU's steps are read a few steps late.
        """
        self._settle()
        times = self._times.get(self._key) if self._key is not None else None
        return times[-1][0] + times[-1][2] if times else None

    def rows(self) -> list[StepRow]:
        """Return means per key of the steps ended since the last call, without outliers.

        `count` is steps averaged.
        """
        self._settle()
        rows = [StepRow(*key, *_robust_means(np.array(times))) for key, times in self._times.items()]
        self._times.clear()
        return rows

    def _settle(self) -> None:
        """Read the steps that the device has passed."""
        while self._pending and all(map(self._clock.passed, self._pending[0][1].marks())):
            key, step, sync_time_s = self._pending.popleft()
            step_time_s = self._clock.seconds(step.start, step.end)
            if sync_time_s is None:
                measured = step.backward is not None and step.synced is not None
                sync_time_s = self._clock.seconds(step.backward, step.synced) if measured else 0.0
            waits = zip(step.input[::2], step.input[1::2], strict=True)
            wait_s = min(sum(self._clock.seconds(*wait) for wait in waits), step_time_s)
            alone_s = step_time_s - wait_s
            self._times[key].append((alone_s, min(max(sync_time_s, 0.0), alone_s), wait_s))
            self._clock.release(step.marks())


def _robust_means(times: np.ndarray) -> tuple[float, float, int, float]:
    """Return mean step time, mean sync time, count and mean wait of the rows (n, 3) that are no outliers.

    Loader workers give batches in bursts. So outliers are told by the time without the wait.
    """
    alone = times[:, 0]
    median = np.median(alone)
    deviation = 1.4826 * np.median(np.abs(alone - median))
    limit = max(OUTLIER_DEVIATIONS * deviation, OUTLIER_SHARE * median)
    kept = times[np.abs(alone - median) <= limit]
    alone_s, sync_time_s, wait_s = kept.mean(axis=0)
    return float(alone_s + wait_s), float(sync_time_s), len(kept), float(wait_s)
