"""Hands metrics on to experiment trackers, each in a thread of its own, so that no step waits for a server.

A tracker that fails is a warning in the job's log, and never the end of a job. What a slow one cannot take is left
out, the oldest first.
"""

from __future__ import annotations

import atexit
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from ...protocol import messages
from .mlflow_run import MlflowRun
from .values import Values
from .wandb_run import WandbRun

MOST_WAITING = 1000  # reports
BEGIN_S = 10.0  # for so long a script's start waits for a tracker
END_S, LEAVE_S = 30.0, 5.0  # for so long its end does, and a process that leaves its GPUs to others
PATIENCE = 5  # failures in a row after which a tracker is asked once in a while only
REST_S = 60.0


class Run(Protocol):
    """The one run of a job at a tracker, wherever the job goes on. Its methods are called by one thread."""

    def begin(self) -> None:
        """Find the run of the job, or make it. Raises anything."""

    def log(self, values: Sequence[Values]) -> None:
        """Add values, oldest first. Raises anything."""

    def end(self, good: bool) -> None:
        """Say that this process adds nothing more. Raises anything."""


RUNS: Mapping[str, Callable[[str], Run]] = {"mlflow": MlflowRun, "wandb": WandbRun}


@dataclass(frozen=True)
class _End:
    good: bool


class Forwarding:
    """Hands metrics on to one tracker. The thread begins with the first use."""

    def __init__(self, name: str, run: Run) -> None:
        self._name, self._run = name, run
        self._waiting: queue.Queue[Values | _End] = queue.Queue(MOST_WAITING)
        self._begun, self._warned, self._left_out = threading.Event(), "", 0
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start the thread, which looks for the job's run."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def until_begun(self, wait_s: float) -> None:
        """Wait until the run is known, or the time is up."""
        self._begun.wait(wait_s)

    def tell(self, metrics: Mapping[str, float], step: int | None) -> None:
        """Hand on values, at once."""
        self.begin()
        values = Values(metrics, step, time.time())
        while True:
            try:
                self._waiting.put_nowait(values)
                return
            except queue.Full:
                self._left_out += 1
                try:
                    self._waiting.get_nowait()
                except queue.Empty:
                    continue

    def end(self, good: bool, wait_s: float) -> None:
        """Have what waits handed on, and end the run here. It takes no longer than `wait_s`."""
        if self._thread is None:
            return
        try:
            self._waiting.put(_End(good), timeout=wait_s)
        except queue.Full:
            return
        self._thread.join(wait_s)
        if self._left_out:
            self._warn(f"was too slow for {self._left_out} reports, which it does not have")

    def _work(self) -> None:
        known, failures = False, 0
        while True:
            if not known:
                known = self._tried(self._run.begin)
                self._begun.set()
            values, end = self._taken()
            if values:
                done = known and self._tried(partial(self._run.log, values))
                failures = 0 if done else failures + 1
            if end is not None:
                if known:
                    self._tried(partial(self._run.end, end.good))
                return
            if failures >= PATIENCE:
                self._rest()

    def _taken(self) -> tuple[list[Values], _End | None]:
        """Return all that waits, once something does."""
        found, one = list[Values](), self._waiting.get()
        while not isinstance(one, _End):
            found.append(one)
            try:
                one = self._waiting.get_nowait()
            except queue.Empty:
                return found, None
        return found, one

    def _rest(self) -> None:
        """Leave the tracker alone for a while, or until the end."""
        until_s = time.monotonic() + REST_S
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                values = self._waiting.get(timeout=left_s)
            except queue.Empty:
                return
            if isinstance(values, _End):
                self._waiting.put(values)
                return
            self._left_out += 1

    def _tried(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except (Exception, SystemExit) as error:  # of a library that is not ours
            lines = str(error).splitlines()
            self._warn(f"{type(error).__name__}: {lines[0][:300] if lines else ''}".removesuffix(": "))
            return False
        return True

    def _warn(self, why: str) -> None:
        """Say why it takes nothing, in the job's log, once for the same reason."""
        if why != self._warned:
            self._warned = why
            print(f"coadapt: {self._name} takes no metrics: {why}; training goes on", file=sys.stderr, flush=True)


class Trackers:
    """Hands metrics on to all trackers of a job."""

    def __init__(self, forwardings: Sequence[Forwarding] = ()) -> None:
        self._all, self._ended = tuple(forwardings), False
        if self._all:
            atexit.register(self.end)

    @classmethod
    def of_environment(cls) -> Trackers:
        """Return the trackers that the job of this process asks for."""
        names = [name for name in os.environ.get(messages.TRACKERS, "").split(",") if name in RUNS]
        job_id = os.environ.get(messages.JOB_ID, "")
        return cls([Forwarding(name, RUNS[name](job_id)) for name in names] if job_id else [])

    def begin(self) -> None:
        """Find the job's runs before the script starts, so that what the script logs itself goes there, too."""
        for one in self._all:
            one.begin()
        until_s = time.monotonic() + BEGIN_S
        for one in self._all:
            one.until_begun(max(until_s - time.monotonic(), 0.0))

    def tell(self, metrics: Mapping[str, Any], step: int | None) -> None:
        """Hand on what was reported. Values that are not finite are left out."""
        finite = {name: float(value) for name, value in metrics.items() if value is not None}
        finite = {name: value for name, value in finite.items() if math.isfinite(value)}
        if finite:
            for one in self._all:
                one.tell(finite, step)

    def end(self, good: bool = True, wait_s: float = END_S) -> None:
        """Have what waits handed on, and end the runs here. It takes no longer than `wait_s`."""
        if self._ended:
            return
        self._ended = True
        until_s = time.monotonic() + wait_s
        for one in self._all:
            one.end(good, max(until_s - time.monotonic(), 0.1))
