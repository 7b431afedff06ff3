"""A service that keeps what executors tell it, and a job that is known by that."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from coadapt.core.schemas import ALL, MEASURING
from coadapt.estimators.measurements import Measurements
from coadapt.executor.executor_job import ExecutorStatus
from coadapt.executor.light_actor import executor_class, packed
from coadapt.executor.protocol.envelope import unpacked
from coadapt.executor.protocol.job_events import JobFailed, JobFinished, Reported, Running
from coadapt.scheduler.files.job_logs import page

PATIENCE_S = 90.0
NAME = "service"


class Service:
    """Record events as the scheduler service takes them; questions wait until there is something new."""

    def __init__(self) -> None:
        self._events: dict[str, list[Any]] = {}
        self._changed = threading.Condition()

    def on_event(self, job_id: str, message: object, life: int) -> None:
        with self._changed:
            self._events.setdefault(job_id, []).append(unpacked(message, Measurements.from_json))
            self._changed.notify_all()

    def events(self, job_id: str, known: int, timeout_s: float) -> list[Any]:
        """Return all events, as soon as there are more than `known`."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._events.get(job_id, ())) > known, timeout_s)
            return list(self._events.get(job_id, ()))


class ToldJob:
    """One executor, its log folder, and what it has told the service."""

    def __init__(self, service: Any, executor: type, folder: Path) -> None:
        self.id = uuid.uuid4().hex[:8]
        self.folder = folder
        self.sequence = 0
        self._service, self._executor = service, executor

    def begin(self, job: Any) -> None:
        """Start the executor of a job."""
        self.actor = (
            ray.remote(executor_class(self._executor))
            .options(num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=8)
            .remote(packed(job))
        )

    def assign(self, *slots: Any) -> None:
        self.sequence += 1
        self.actor.assign.remote(list(slots), self.sequence)

    def status(self) -> ExecutorStatus:
        return ray.get(self.actor.status.remote(), timeout=60)

    def wait(self, kind: type, accept: Callable[[Any], bool] = lambda event: True, count: int = 1) -> Any:
        """Return the `count`-th event of a kind that is accepted. Fail with everything else that was told."""
        deadline, events = time.monotonic() + PATIENCE_S, []
        while time.monotonic() < deadline:
            found = [event for event in events if isinstance(event, kind) and accept(event)]
            if len(found) >= count:
                return found[count - 1]
            if kind in (Running, JobFinished) and any(isinstance(event, JobFailed) for event in events):
                break
            events = ray.get(self._service.events.remote(self.id, len(events), 5.0))
        told = [event for event in events if not isinstance(event, Reported)]
        raise AssertionError(f"no {kind.__name__} in {told}; {self.log()[-2000:]}")

    def events(self, kind: type) -> list[Any]:
        return [e for e in ray.get(self._service.events.remote(self.id, -1, 0)) if isinstance(e, kind)]

    def log(self) -> str:
        return "".join(page(self.folder / "logs", source, 0)[0] for source in (MEASURING, ALL))

    def end(self) -> None:
        ray.kill(self.actor, no_restart=True)
