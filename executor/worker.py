"""The worker actor: one thin Ray actor per replica, beside the training process it runs."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import ray

from .lifecycle import Exited, Output, WorkerEvent
from .protocol import Command, Event
from .template_wire import Owner
from .training_process import Launch, TrainingProcess

BATCH = 500  # events of one call to the executor
WAITING = 2000  # lines that may wait for it before the script's output blocks


class Worker:
    """Runs one training process, relays commands down and events up, and ends with it.

    Made a Ray actor by `AdaptiveExecutor`, inside the node's lease and in the job's runtime environment. `run`
    is called once and never returns: its reference fails when the actor is gone, for whatever reason.
    """

    def __init__(self, worker_id: str, launch: Launch, executor: Any) -> None:
        self._id = worker_id
        self._executor = executor
        self._events: queue.Queue[Event | WorkerEvent] = queue.Queue(WAITING)
        owner = Owner(ray.get_runtime_context().gcs_address, os.getppid())
        self._process = TrainingProcess(replace(launch, owner=owner), self._events.put)
        self._sending = threading.Lock()
        self._early: dict[int, Command] = {}
        self._next = 0

    def run(self) -> None:
        relay = threading.Thread(target=self._relay, name="coadapt-relay", daemon=True)
        relay.start()
        try:
            self._process.run()
            relay.join()
        finally:
            self._process.kill()
            ray.actor.exit_actor()

    def send(self, index: int, command: Command) -> None:
        """Relay the `index`-th command; concurrent actor calls may arrive in any order."""
        with self._sending:
            self._early[index] = command
            while self._next in self._early:
                self._process.send(self._early.pop(self._next))
                self._next += 1

    def _relay(self) -> None:
        """Deliver events in order; the executor's answer paces the script's output.

        An executor that does not know this worker was restarted: the worker has no one to work for.
        """
        last: Event | WorkerEvent | None = None
        while not isinstance(last, Exited):
            events = self._take()
            last = events[-1]
            try:
                known = ray.get(self._executor.on_worker.remote(self._id, compact(events)))
            except ray.exceptions.RayError:
                known = False
            if not known:
                self._process.kill()
                os._exit(1)

    def _take(self) -> list[Event | WorkerEvent]:
        events = [self._events.get()]
        while len(events) < BATCH and not isinstance(events[-1], Exited):
            try:
                events.append(self._events.get_nowait())
            except queue.Empty:
                break
        return events


def compact(events: Iterable[Event | WorkerEvent]) -> list[Event | WorkerEvent]:
    """The same events with neighbouring `Output`s joined into one."""
    compacted: list[Event | WorkerEvent] = []
    for event in events:
        last = compacted[-1] if compacted else None
        if isinstance(event, Output) and isinstance(last, Output):
            compacted[-1] = Output(last.lines + event.lines)
        else:
            compacted.append(event)
    return compacted
