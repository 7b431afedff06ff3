"""Executors that do nothing but answer: one actor stands for those of all jobs, and reports for each in turn.

What it tells travels as it does from real ones: packed, by a call of the service's actor.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from coadapt.core.reports import Progress, Report, StepRow
from coadapt.core.service_names import NAMESPACE, SERVICE_NAME
from coadapt.core.settings import Settings
from coadapt.core.slot import Slot
from coadapt.executor.executor_job import ExecutorStatus
from coadapt.executor.protocol.envelope import packed
from coadapt.executor.protocol.job_events import (
    JobFinished,
    ProfileFinished,
    Released,
    Reported,
    Running,
)
from coadapt.scheduler.jobs.record import JobRecord

from .many_jobs import measured

STUBS_NAME = "stub-executors"
REPORT_S = 30.0
PROFILE_S = 30.0
TICK_S = 0.2
log = logging.getLogger(__name__)


@dataclass
class Job:
    """What one of the executors has."""

    life: int
    sequence: int = 0
    slots: tuple[Slot, ...] = ()
    due_s: float = 0.0  # of the next report, monotonic
    samples: int = 0
    ends_s: float | None = None


@dataclass(frozen=True)
class Run:
    """A profile run, and when it is over."""

    slot: Slot
    sequence: int
    ends_s: float


class StubExecutors:
    """The actor. Its methods are the commands of the service to one of its jobs.

    An executor that is made anew holds nothing, and says so of each job that the one before it had.

    Args:
        folder: where it writes which jobs it has.
        lasts_s: how long a job trains until it has finished; None: for ever.
        profile_s: how long it is measured on a GPU type.
    """

    def __init__(self, folder: str, lasts_s: float | None = None, profile_s: float = PROFILE_S) -> None:
        self._file, self._lasts_s, self._profile_s = Path(folder) / "stub_jobs.json", lasts_s, profile_s
        before: dict[str, int] = json.loads(self._file.read_text()) if self._file.exists() else {}
        self._jobs: dict[str, Job] = {}
        self._runs: dict[tuple[str, str], Run] = {}  # by job and GPU type
        self._lock = threading.RLock()
        self._known = measured()
        self._told = 0
        threading.Thread(target=self._run, args=(before,), name="reports", daemon=True).start()

    def assign(self, job_id: str, life: int, slots: Sequence[Slot], sequence: int) -> None:
        """Train on exactly these slots, at once."""
        with self._lock:
            now_s = time.monotonic()
            job = self._jobs.setdefault(job_id, Job(life, due_s=now_s + hash(job_id) % REPORT_S))
            if sequence < job.sequence or life < job.life:
                return
            gone = tuple(sorted(set(job.slots) - set(slots)))
            job.life, job.sequence, job.slots = life, sequence, tuple(slots)
            if self._lasts_s is not None and job.ends_s is None:
                job.ends_s = now_s + self._lasts_s
            self._note()
        if slots:
            self._tell(job_id, Running(sequence, tuple(slots), warm=True))
        if gone:
            self._tell(job_id, Released(sequence, gone))

    def profile(self, job_id: str, life: int, slot: Slot, sequence: int) -> None:
        """Measure in a slot, which takes as long as with real processes."""
        with self._lock:
            now_s = time.monotonic()
            self._jobs.setdefault(job_id, Job(life, due_s=now_s + REPORT_S))
            self._runs[job_id, slot.gpu_type] = Run(slot, sequence, now_s + self._profile_s)
            self._note()

    def end_profile(self, job_id: str, life: int, slot: Slot, sequence: int) -> None:
        """Give up a profile run."""
        with self._lock:
            self._runs.pop((job_id, slot.gpu_type), None)
        self._tell(job_id, Released(sequence, (slot,)))

    def cancel(self, job_id: str) -> None:
        """End everything of a job."""
        with self._lock:
            job = self._jobs.pop(job_id, None)
            self._forget_runs(job_id)
        if job is not None:
            self._tell(job_id, Released(job.sequence, job.slots), job.life)

    def restart(self, job_id: str) -> None:
        """Begin again, with nothing."""
        with self._lock:
            job = self._jobs.pop(job_id, None)
            self._forget_runs(job_id)
        if job is not None:
            self._tell(job_id, Released(0, (), everything=True), job.life)

    def retire(self, job_id: str) -> None:
        """Forget a job."""
        with self._lock:
            self._jobs.pop(job_id, None)

    def retire_others(self, job_ids: Sequence[str]) -> None:
        """Forget all jobs but these."""
        with self._lock:
            self._jobs = {name: job for name, job in self._jobs.items() if name in set(job_ids)}

    def statuses(self, job_ids: Sequence[str]) -> dict[str, ExecutorStatus]:
        """Return what jobs have that are known."""
        with self._lock:
            return {
                name: ExecutorStatus("training", job.sequence, job.slots, job.slots, 1)
                for name in job_ids
                if (job := self._jobs.get(name)) is not None
            }

    def told(self) -> int:
        """Return how many reports were sent."""
        return self._told

    def _run(self, before: Mapping[str, int]) -> None:
        for job_id, life in before.items():
            self._tell(job_id, Released(0, (), everything=True), life)
        while True:
            time.sleep(TICK_S)
            now_s = time.monotonic()
            with self._lock:
                due = [(name, job) for name, job in self._jobs.items() if job.slots and job.due_s <= now_s]
                for _, job in due:
                    job.due_s = now_s + REPORT_S
                over = [name for name, job in self._jobs.items() if job.ends_s is not None and job.ends_s <= now_s]
                measured = {key: run for key, run in self._runs.items() if run.ends_s <= now_s}
                for key in measured:
                    del self._runs[key]
            for (name, gpu_type), run in measured.items():
                self._tell(name, ProfileFinished(gpu_type, True, measurements=self._known, sequence=run.sequence))
                self._tell(name, Released(run.sequence, (run.slot,)))
            for name, job in due:
                self._tell(name, self._report(job))
                self._told += 1
            for name in over:
                self._finish(name)

    def _finish(self, job_id: str) -> None:
        with self._lock:
            job = self._jobs.pop(job_id, None)
        if job is not None and job.slots:
            self._tell(job_id, JobFinished({"loss": 0.1}), job.life)
            self._tell(job_id, Released(job.sequence, job.slots), job.life)

    def _report(self, job: Job) -> Reported:
        job.samples += 64_000
        rows = (StepRow(1, 1, 64, 0, 0.13, 0.0, 20),) if job.samples % 640_000 == 0 else ()
        done = Progress(3, 60, 0.05, job.samples // 64, job.samples, float(job.samples))
        told = Report(
            *(1, job.slots[0].gpu_type, 1, 1, rows, 1.0, 1000.0, 64, 64, 0, 0.1, 1.0, done),
            {"loss": 64_000 / job.samples, "accuracy": 0.5},
        )
        return Reported(told, self._known.with_report(told))

    def _forget_runs(self, job_id: str) -> None:
        self._runs = {key: run for key, run in self._runs.items() if key[0] != job_id}

    def _note(self) -> None:
        """Write which jobs it has, as whoever kills it does not ask before."""
        beside = self._file.with_suffix(".part")
        beside.write_text(json.dumps({name: job.life for name, job in self._jobs.items()}))
        beside.replace(self._file)

    def _tell(self, job_id: str, event: Any, life: int | None = None) -> None:
        if life is None:
            with self._lock:
                life = self._jobs[job_id].life if job_id in self._jobs else 0
        while True:
            try:
                service = ray.get_actor(SERVICE_NAME, namespace=NAMESPACE)
                ray.get(service.on_event.remote(job_id, packed(event), life), timeout=30)
                return
            except (ValueError, ray.exceptions.RayError):
                time.sleep(0.2)  # the service starts again; nobody tells when


class RemoteStubs:
    """What the service has in place of `Executors`: it passes everything on to the one actor."""

    def __init__(
        self,
        settings: Settings,
        packages: object,
        gpu_types: object,
        lost: Callable[[str, str], None],
        home: object = None,
        newest: object = None,
        secrets: object = None,
    ) -> None:
        self._stubs = ray.get_actor(STUBS_NAME, namespace=NAMESPACE)

    def assign(self, job: JobRecord, slots: Sequence[Slot], sequence: int) -> None:
        self._stubs.assign.remote(job.id, job.life, list(slots), sequence)

    def profile(self, job: JobRecord, slot: Slot, sequence: int) -> None:
        self._stubs.profile.remote(job.id, job.life, slot, sequence)

    def end_profile(self, job: JobRecord, slot: Slot, sequence: int) -> None:
        self._stubs.end_profile.remote(job.id, job.life, slot, sequence)

    def save(self, job: JobRecord) -> None:
        """Nothing is trained, so there is nothing to save."""

    def give(self, job: JobRecord) -> None:
        """Nothing runs that a secret could be given to."""

    def cancel(self, job: JobRecord) -> None:
        self._stubs.cancel.remote(job.id)

    def restart(self, job: JobRecord) -> None:
        self._stubs.restart.remote(job.id)

    def retire(self, job: JobRecord) -> None:
        self._stubs.retire.remote(job.id)

    def retire_others(self, jobs: Sequence[JobRecord]) -> None:
        self._stubs.retire_others.remote([job.id for job in jobs])

    def statuses(self, jobs: Sequence[JobRecord], timeout_s: float) -> Mapping[str, ExecutorStatus | None]:
        found: dict[str, ExecutorStatus | None] = ray.get(
            self._stubs.statuses.remote([job.id for job in jobs]), timeout=timeout_s
        )
        return found

    def drain(self, timeout_s: float) -> None:
        """Everything has been sent."""

    def stop(self) -> None:
        """There is nothing to stop."""

    def end_all(self, jobs: Sequence[JobRecord], timeout_s: float) -> None:
        self._stubs.retire_others.remote([])
