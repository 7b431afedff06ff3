"""Services beside rounds: they see jobs and node counts in order of time, foretell lengths and advise on machines.

Models are fitted in threads and kept in files. A round reads what is there and never waits for a fit.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ...core.events import EventKind
from ...core.job import EXPERIMENT
from ...core.wording import in_words
from ...estimators import learned_file
from ...estimators.foretold import Foretold
from ...estimators.job_history import EndedJob, StartedJob, SubmittedJob
from ...policies.contract.arrivals import Arrivals
from ...policies.contract.foresight import Foresight as TeamForesight
from ..jobs.record import JobRecord
from ..services.catalogue import make_services
from ..services.contract import NO_ADVICE, Advice
from ..services.counting import counts_of
from ..services.host import ServiceHost
from ..store.events import Event
from ..store.store import Store
from .hooks import Change, CycleHook, RoundDone

MOST_ENDED = 200_000  # jobs of the store that services are told of after a restart, the newest


class FitBeside:
    """Fits in a thread per service. `failed` is told in one sentence when a fit raises."""

    at_once: ClassVar[bool] = False

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._failed = failed
        self._threads: dict[str, threading.Thread] = {}
        self._ended: deque[tuple[str, Any]] = deque()

    def idle(self) -> bool:
        """Return whether a CPU of this machine had nothing to do in the last minute."""
        return os.getloadavg()[0] <= (os.cpu_count() or 1) - 1

    def begin(self, name: str, fit: Callable[[], Any]) -> None:
        """Begin a fit, unless one for the service is under way."""
        if (thread := self._threads.get(name)) is not None and thread.is_alive():
            return
        self._threads[name] = threading.Thread(target=self._fit, args=(name, fit), name=f"fit-{name}", daemon=True)
        self._threads[name].start()

    def ended(self) -> Sequence[tuple[str, Any]]:
        """Return what was fitted since the last call."""
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def wait(self, timeout_s: float) -> None:
        """Wait for the fits that are under way."""
        for thread in self._threads.values():
            thread.join(timeout_s)

    def _fit(self, name: str, fit: Callable[[], Any]) -> None:
        try:
            self._ended.append((name, fit()))
        except Exception as error:
            self._failed(f"{name}: was not fitted anew: {in_words(error)}")


class Foresight(CycleHook):
    """Runs the services of the settings over the jobs of a store.

    After a restart they see the jobs of the store anew, in order of time. Models come from their files; one that
    is torn or of other options is fitted anew, and `failed` is told.

    Args:
        options: of each service, by name.
        folder: where the models' files lie.
        advised: takes what services advise after a round, with the time.
        failed: takes one sentence when a model cannot be read, written or fitted, or a service raises.

    Raises:
        ValueError: in one sentence, for an unknown service or option.
    """

    def __init__(
        self,
        options: Mapping[str, Mapping[str, Any]],
        store: Store,
        folder: Path,
        advised: Callable[[Advice, float], None],
        failed: Callable[[str], None],
    ) -> None:
        self._store, self._folder, self._advised, self._failed = store, folder, advised, failed
        services = make_services(options)
        self._fits = FitBeside(failed)
        self._host = ServiceHost(services, self._fits)
        # Told by other threads; the id of a job that ended without GPUs.
        self._ended: deque[StartedJob | EndedJob | str] = deque()
        self._told = ""  # the last failure, so that it is told once
        self._distrusted: dict[str, str] = {}  # what services do not go by, as it was told last
        self._submitted: set[str] = set()
        self._found: dict[str, Foretold] = {}  # that `foretell` has not returned yet
        self._writers: dict[str, threading.Thread] = {}  # by service
        for name, service in services.items():
            self._read(name, service.read)

    def __bool__(self) -> bool:
        return bool(self._host)

    def changed(self, change: Change) -> None:
        """Take note of a job that has started, or ended."""
        if self._host and change.before.state.started_s is None and change.after.state.started_s is not None:
            self._ended.append(_started(submitted_job(change.after), change.after.state.started_s))
        if self._host and change.before.active and not change.after.active:
            self._ended.extend(_ended(change.after, self._store))

    def foretell(self, now: float) -> dict[str, Foretold]:
        """Return how long jobs take that were submitted since the last call, by their ids.

        A service that raises foretells nothing. It keeps neither jobs nor rounds from going on.
        """
        if not self._host:
            return {}
        if not self._submitted:
            self._begin()
        for job in self._store.unretired.values():
            if job.id not in self._submitted:
                self._submit(job)
        gone = []
        while self._ended:
            one = self._ended.popleft()
            if isinstance(one, StartedJob):
                self._host.started(one)
            elif isinstance(one, EndedJob):
                self._host.ended(one)
            else:
                gone.append(one)
        try:
            self._found |= self._host.advance(now)
            for job_id in gone:
                self._host.forget(job_id)
            self._write(now)
        except Exception as error:
            self._fails(error)
        found, self._found = self._found, {}
        return found

    def arriving(self, now: float) -> Arrivals | None:
        """Return what is foretold to arrive; None: nothing is, also where a service raises."""
        try:
            return self._host.arriving(now)
        except Exception as error:
            self._fails(error)
            return None

    def of_teams(self, now: float) -> TeamForesight | None:
        """Return what teams will submit; None: nobody foretells it, also where a service raises."""
        try:
            found = self._host.foresight(now)
            self._tell_distrusted(now)
            return found
        except Exception as error:
            self._fails(error)
            return None

    def _tell_distrusted(self, now: float) -> None:
        """Log which forecasts are not gone by any more, and which are again."""
        new = self._host.distrusted()
        told = [text for key, text in new.items() if key not in self._distrusted]
        told += [
            f"{text.partition(':')[0]}: its forecast counts again"
            for key, text in self._distrusted.items()
            if key not in new
        ]
        self._distrusted = new
        for text in dict.fromkeys(told):
            self._store.log(Event(EventKind.LEARNED, now, None, {"text": text}))

    def planned(self, done: RoundDone) -> None:
        """Count nodes, and hand on what services advise."""
        if not self._host:
            return
        round = done.round
        self._host.counted(counts_of(round.now, round, done.plan))
        self._found |= self._host.advance(round.now)
        advice = self._host.advise(round.now, round, done.plan)
        if advice != NO_ADVICE:
            self._advised(advice, round.now)

    def _fails(self, error: Exception) -> None:
        """Tell what a service raised, once."""
        told = f"a service failed: {in_words(error)}"
        if told != self._told:
            self._failed(told)
        self._told = told

    def wait(self, timeout_s: float) -> None:
        """Wait for fits and for files that are being written."""
        self._fits.wait(timeout_s)
        for thread in self._writers.values():
            thread.join(timeout_s)

    def _begin(self) -> None:
        """Tell services of the jobs that have ended."""
        for ended in self._store.ended_jobs(MOST_ENDED):
            job = SubmittedJob(
                ended.id, ended.owner, ended.name, ended.pool, ended.gpus, ended.cpus, ended.submitted_s,
                team=ended.team, tag=ended.tag,
            )  # fmt: skip
            self._submitted.add(job.id)
            self._host.submitted(job, asked=False)
            if ended.started_s is not None:
                self._ended.append(_started(job, ended.started_s))
            if ended.served_s > 0:
                self._ended.append(EndedJob(job, max(ended.finished_s, ended.submitted_s), ended.served_s))
            else:
                self._ended.append(ended.id)

        for under_way in self._store.unretired.values():
            if (at_s := under_way.state.started_s) is not None:
                self._ended.append(_started(submitted_job(under_way), at_s))

    def _submit(self, job: JobRecord) -> None:
        self._submitted.add(job.id)
        self._host.submitted(submitted_job(job), asked=job.active and job.foretold is None)

    def _read(self, name: str, read: Callable[[Mapping[str, Any]], None]) -> None:
        path = self._path(name)
        try:
            document, _ = learned_file.read(path, name)
            read(document)
        except FileNotFoundError:
            return
        except ValueError as error:
            self._failed(f"{error}; it is fitted anew")

    def _write(self, now: float) -> None:
        """Write the models that were fitted since, in a thread, as disks may be slow."""
        for name, service in self._host.services.items():
            document = service.document() if self._host.taken(name) else None
            if document is not None:
                self._writers[name] = threading.Thread(target=self._keep, args=(name, document, now), daemon=True)
                self._writers[name].start()

    def _keep(self, name: str, document: Mapping[str, Any], now: float) -> None:
        try:
            learned_file.write(self._path(name), name, document, now)
        except ValueError as error:
            self._failed(str(error))

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def submitted_job(job: JobRecord) -> SubmittedJob:
    """Return what services know of a job at its submission."""
    gpus = job.spec.asked_gpus
    cpus = gpus * job.spec.resources.least_cpus_per_gpu
    return SubmittedJob(
        job.id, job.owner, job.spec.name, job.spec.pool or "", gpus, cpus, job.state.submitted_s,
        team=job.spec.team or "", tag=job.spec.labels.get(EXPERIMENT, ""),
    )  # fmt: skip


def _started(job: SubmittedJob, at_s: float) -> StartedJob:
    return StartedJob(job, max(at_s, job.submitted_s))


def _ended(job: JobRecord, store: Store) -> Iterable[EndedJob | str]:
    """Yield what services see of a job that has ended; of one that never had GPUs only its id."""
    ended_s = job.state.finished_s
    if ended_s is None:
        return
    trained_s = store.held_time(job.id).served_s(0.0, ended_s)
    if trained_s > 0:
        yield EndedJob(submitted_job(job), max(ended_s, job.state.submitted_s), trained_s)
    else:
        yield job.id
