"""A worker's events on their way to its executor, in order."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

import ray

from .protocol.command_events import Said
from .protocol.worker_events import Exited, Output

BATCH = 500  # events of one call to the executor
WAITING = 2000  # pieces that may wait for it before the script's output blocks


class EventRelay:
    """Deliver events from a thread of its own; the executor's answer paces the script's output.

    An executor that does not know this worker has been restarted, so the worker ends. `kill` ends its processes.
    """

    def __init__(self, worker_id: str, executor: Any, kill: Callable[[], None]) -> None:
        self._id, self._executor, self._kill = worker_id, executor, kill
        self._events: queue.Queue[Any] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._run, name="coadapt-relay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, event: Any) -> None:
        """Add an event; wait while too many are on their way. `Exited` is the last one."""
        self._events.put(event)

    def join(self) -> None:
        """Wait until everything is delivered."""
        self._thread.join()

    def _run(self) -> None:
        last: Any = None
        while not isinstance(last, Exited):
            events = self._take()
            last = events[-1]
            try:
                known = ray.get(self._executor.on_worker.remote(self._id, compact(events)))
            except ray.exceptions.RayError:
                known = False
            if not known:
                self._kill()
                os._exit(1)

    def _take(self) -> list[Any]:
        events = [self._events.get()]
        while len(events) < BATCH and not isinstance(events[-1], Exited):
            try:
                events.append(self._events.get_nowait())
            except queue.Empty:
                break
        return events


def compact(events: Iterable[Any]) -> list[Any]:
    """Return the same events with neighbouring pieces of one process's output joined into one."""
    compacted: list[Any] = []
    for event in events:
        last = compacted[-1] if compacted else None
        if isinstance(event, Output) and isinstance(last, Output):
            compacted[-1] = Output(last.text + event.text)
        elif isinstance(event, Said) and isinstance(last, Said) and event.rank == last.rank:
            compacted[-1] = Said(last.rank, last.text + event.text)
        else:
            compacted.append(event)
    return compacted
