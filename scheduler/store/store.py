"""The durable job store: every change of state is one transaction, on disk before anyone acts on it.

A service that was killed finds at least what it has already caused. Memory holds the jobs that are active or hold
something; ended ones are read from the database when somebody asks. The store knows no Ray.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, func, select

from ...core.events import EventKind
from ...core.identity import Reader
from ...core.job import JobSpec, JobState
from ...core.job_arrays import ArrayElement
from ...estimators.measurements import Measurements
from ..jobs.held_time import HeldTime
from ..jobs.lifecycle import check
from ..jobs.record import JobRecord, Origin, TrialSource
from ..jobs.unnamed_devices import with_names
from . import audit, ended, events, intervals, known, numbers, opening, tables
from .database import Database
from .events import Event
from .failures import StoreFailure
from .intervals import PROFILING, RUNNING, JobTimes, UsageInterval
from .job_writes import JobWrites
from .schema import events as event_table
from .schema import intervals as interval_table
from .schema import jobs, machines, meta
from .tables import Found
from .text_rows import TextRows
from .unit import Changes, Levels, Write

Wrote = Callable[[StoreFailure | None, float], None]


class Store:
    """Jobs by id. Several threads may call it; one service at a time writes it.

    Args:
        where: the path of a SQLite file, or a URL of SQLAlchemy.
        wrote: called after each transaction with what failed, or None, and with the seconds that it took.
        backups: the folder of backups before migrations; by default the one beside a SQLite file.

    Raises: StoreError if it cannot be opened, is of a later version or held by another service.
    """

    def __init__(
        self,
        where: Path | str,
        wrote: Wrote = lambda error, seconds: None,
        backups: Path | None = None,
    ) -> None:
        self._wrote = wrote
        self._lock = threading.RLock()
        self._levels, self._thread, self._closed = Levels(), 0, False
        self._opened = opening.open_store(where, backups)
        self._db: Database = self._opened.database
        self.machine_rows = TextRows(self, machines)
        self._unretired: dict[str, JobRecord] = {}
        self._holding: dict[str, JobRecord] = {}  # those of them that have slots, or shall have some
        self._times: dict[str, JobTimes] = {}  # of those
        self._writes = JobWrites()
        self.unreadable: set[str] = set()  # jobs whose rows cannot be read, though their columns can
        self.unnamed: set[str] = set()  # jobs of an earlier version, whose stored slots name no GPUs
        try:
            with self._db.reading() as connection:
                self._read(connection)
        except BaseException:
            self.close()
            raise

    @property
    def database(self) -> Database:
        """Return the connections, for backups, retention and other tables."""
        return self._db

    def close(self) -> None:
        """Close the store, so that another service may open it."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._opened.close()

    def _read(self, connection: Connection) -> None:
        def last(column: ColumnElement[int]) -> int:
            return connection.scalar(select(func.coalesce(func.max(column), 0))) or 0

        given = numbers.read(connection)  # before a backup was brought back
        self._last_job = max(last(jobs.c.number), given.job)
        self._last_event = max(last(event_table.c.id), given.event)
        self._last_interval = max(last(interval_table.c.id), given.interval)
        self._audit = audit.Chain(connection, given.audit)
        for found in tables.read_jobs(connection, ~jobs.c.retired):
            self._unretired[found.job.id] = self._note(found)
        for job in with_names(self._unretired.values()):
            self._unretired[job.id] = job
            self.unnamed.add(job.id)
        self._holding = {job.id: job for job in self._unretired.values() if job.has_slots}
        self._times = dict.fromkeys(self._unretired, JobTimes()) | _times(connection, list(self._unretired))

    # --- transactions -------------------------------------------------------------------------------------

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make one transaction of all changes within: all of them are kept, or none.

        They are written at the end, in one go. Other threads see them from then on.

        Raises: StoreFailure if they cannot be written.
        """
        with self._lock:
            self._levels.begin()
            self._thread = threading.get_ident()
            try:
                yield
            except BaseException:
                self._levels.end(kept=False)
                raise
            if (changes := self._levels.end(kept=True)) is not None:
                self._commit(changes)

    @contextmanager
    def _changing(self) -> Iterator[Changes]:
        with self.together():
            yield self._levels.top

    def _commit(self, changes: Changes) -> None:
        if not changes:
            return
        for at, event in enumerate(changes.events):
            changes.events[at] = replace(event, number=self._last_event + 1 + at)
        before = {job_id: self._before(job) for job_id, job in changes.jobs.items()}
        writing = self._writes.prepare(changes, before, self.unreadable)
        audited = self._audit.rows(changes.audit, before, changes.jobs)

        def write(connection: Connection) -> None:
            writing.run(connection)
            rows = [intervals.row(number, one) for number, one in changes.intervals.items()]
            tables.upsert(connection, interval_table, ("id",), rows)
            events.append(connection, changes.events)
            known.write(connection, changes.known)
            for other in changes.others:
                other(connection)
            audit.append(connection, audited)

        self._write(write)
        self._audit.written(audited)
        self._last_event += len(changes.events)
        self._writes.written(writing)
        self._take(changes)

    def _write(self, write: Write) -> None:
        failure: StoreFailure | None = None
        try:
            self._db.write(write)
        except StoreFailure as error:
            failure = error
            raise
        finally:
            self._wrote(failure, self._db.last_write_s)

    def _take(self, changes: Changes) -> None:
        """Take in memory what is on disk now. Readers in other threads see whole dictionaries."""
        if changes.jobs:
            self._take_jobs(changes.jobs)
        for job_id, times in changes.times.items():
            if job_id in self._unretired:
                self._times[job_id] = times

    def _take_jobs(self, changed: Mapping[str, JobRecord]) -> None:
        found, holding = dict(self._unretired), dict(self._holding)
        in_order = True
        for job_id, job in changed.items():
            self._last_job = max(self._last_job, job.number)
            in_order &= job_id in found or not found or job.number > next(reversed(found.values())).number
            found[job_id] = job
            holding.pop(job_id, None)
            if job.has_slots and not job.retired:
                holding[job_id] = job
            if job.retired:
                del found[job_id]
                self._times.pop(job_id, None)
                self._writes.forget(job_id)
        if not in_order:
            found = dict(sorted(found.items(), key=lambda one: one[1].number))
        self._unretired, self._holding = found, holding

    @property
    def _mine(self) -> bool:
        """Whether this thread is within a transaction, and so sees what it has changed."""
        return bool(self._levels) and self._thread == threading.get_ident()

    # --- jobs ---------------------------------------------------------------------------------------------

    @property
    def unretired(self) -> Mapping[str, JobRecord]:
        """The jobs that are active or may still hold something, by id, in submission order."""
        if not self._mine or not (changed := self._levels.jobs()):
            return self._unretired
        found = {**self._unretired, **changed}
        return {job_id: job for job_id, job in found.items() if not job.retired}

    @property
    def holding(self) -> Mapping[str, JobRecord]:
        """Those of them that have slots, or shall have some, by id. Thousands more may wait."""
        if not self._mine or not (changed := self._levels.jobs()):
            return self._holding
        return {job_id: job for job_id, job in {**self._holding, **changed}.items() if job.has_slots}

    def find(self, job_id: str) -> JobRecord | None:
        """Return the job, or None. Raises: StoreFailure."""
        if self._mine and (job := self._levels.job(job_id)) is not None:
            return job
        return self._known(job_id)

    def get(self, job_id: str) -> JobRecord:
        """Return the job. Raises: KeyError with a sentence for a person; StoreFailure."""
        if self._mine and (job := self._levels.job(job_id)) is not None:
            return job
        if (found := self._known(job_id)) is None:
            raise KeyError(f"no job {job_id}")
        return found

    def _known(self, job_id: str) -> JobRecord | None:
        """Return what is committed of a job, ended ones from the database."""
        if (job := self._unretired.get(job_id)) is not None:
            return job
        return None if (found := self._read_one(job_id)) is None else found.job

    def _read_one(self, job_id: str) -> Found | None:
        with self._db.reading() as connection:
            return next(tables.read_jobs(connection, jobs.c.id == job_id), None)

    def _before(self, changed: JobRecord) -> JobRecord | None:
        """Return what is stored of a job that is about to be written; None: nothing."""
        if (job := self._unretired.get(changed.id)) is not None:
            return job
        if changed.number > self._last_job:  # it is new
            return None
        return None if (found := self._read_one(changed.id)) is None else self._note(found)

    def read_again(self, job_id: str) -> JobRecord:
        """Read a quarantined job anew, as a later version may read its rows. Raises: KeyError; StoreFailure."""
        with self._lock:
            if (found := self._read_one(job_id)) is None:
                raise KeyError(f"no job {job_id}")
            job = self._note(found)
            if not job.retired:
                self._take_jobs({job_id: job})
            return job

    def _note(self, found: Found) -> JobRecord:
        """Take note of how a job is stored. Only who writes may do so."""
        job = found.job
        if found.unreadable:
            self.unreadable.add(job.id)
        else:
            self.unreadable.discard(job.id)
            self._writes.know(job.id, found.file, found.following)
        return job

    def every(self, where: ColumnElement[bool] | None = None) -> Iterator[JobRecord]:
        """Yield all jobs in submission order, as they are on disk. Raises: StoreFailure."""
        with self._db.reading() as connection:
            for found in tables.read_jobs(connection, where):
                yield found.job

    def page(self, before: int | None, most: int, where: ColumnElement[bool] | None = None) -> list[JobRecord]:
        """Return the newest jobs with numbers below `before`, newest first. Raises: StoreFailure."""
        older = None if before is None else jobs.c.number < before
        known = self._unretired
        with self._db.reading() as connection:
            ids = tables.newest_ids(connection, [one for one in (older, where) if one is not None], most)
            others = [job_id for job_id in ids if job_id not in known]
            read = tables.read_jobs(connection, jobs.c.id.in_(others)) if others else ()
            found = {one.job.id: one.job for one in read}
        return [job for job_id in ids if (job := known.get(job_id) or found.get(job_id)) is not None]

    def submitted(self, idempotency_key: str) -> JobRecord | None:
        """Return the job that a call with this key made, or None."""
        if (job_id := self._levels.keyed(idempotency_key) if self._mine else None) is None:
            with self._db.reading() as connection:
                job_id = connection.scalar(select(jobs.c.id).where(jobs.c.idempotency_key == idempotency_key))
        return None if job_id is None else self.get(job_id)

    def submit(
        self,
        spec: JobSpec,
        now: float,
        *,
        idempotency_key: str,
        package: str | None = None,
        script_key: str = "",
        origin: Origin | None = None,
        trial_sources: tuple[TrialSource, ...] = (),
        owner: str = "",
        element: ArrayElement | None = None,
    ) -> tuple[JobRecord, bool]:
        """Return the new job, or the one that an earlier call with the same key made, and whether it is new.

        Args:
            element: where it stands in an array; None: it is of none.
        """
        with self._changing() as changes:
            if (known_job := self.submitted(idempotency_key)) is not None:
                return known_job, False
            number = max([self._last_job, *(job.number for job in self._levels.jobs().values())]) + 1
            job = JobRecord(
                id=f"{spec.name}-{number}",
                number=number,
                spec=spec,
                state=JobState(submitted_s=now),
                package=package,
                script_key=script_key,
                origin=origin,
                trial_sources=trial_sources,
                owner=owner,
                array="" if element is None else element.id or f"{spec.name}+{number}",
                array_index=0 if element is None else element.index,
                array_values={} if element is None else element.values,
            )
            told = {} if origin is None else {"text": f"forked from {origin.job_id} at step {origin.steps}"}
            changes.jobs[job.id], changes.keys[job.id] = job, idempotency_key
            changes.events.append(Event(EventKind.SUBMIT, now, job.id, told, who=owner))
            return job, True

    def save(self, job: JobRecord, *told: Event, now: float | None = None) -> JobRecord:
        """Write a changed job and what happened, in one transaction. End its intervals if it has ended by `now`.

        Raises: IllegalTransition where the phase cannot follow the stored one; KeyError for an unknown job.
        """
        return self.save_all([job], told, now)[0]

    def save_all(self, changed: Sequence[JobRecord], told: Sequence[Event], now: float | None) -> list[JobRecord]:
        """Write several jobs that one decision changed: all of them or none. Raises: as `save`."""
        with self._changing() as changes:
            for job in changed:
                check(self.get(job.id).phase, job.phase)
                changes.jobs[job.id] = job
                if now is not None and not job.active:
                    self._close(changes, job.id, now)
            changes.events += told
            return list(changed)

    # --- the log ------------------------------------------------------------------------------------------

    def log(self, *told: Event) -> None:
        """Write events."""
        with self._changing() as changes:
            changes.events += told

    def events(self, job_id: str | None = None, last: int = 100) -> list[Event]:
        """Return the newest events of one job or of all, oldest first."""
        with self._db.reading() as connection:
            return events.newest(connection, None if job_id is None else event_table.c.job_id == job_id, last)

    def cluster_events(self, last: int = 10) -> list[Event]:
        """Return the newest events that are of no job, oldest first. Plans are left out."""
        with self._db.reading() as connection:
            return events.newest(connection, events.OF_CLUSTER, last)

    def newest_events(
        self,
        last: int,
        job_id: str | None = None,
        kinds: Sequence[str] = (),
        since_s: float | None = None,
        reader: Reader | None = None,
    ) -> list[Event]:
        """Return the newest events that fit, as `events.chosen` has it, oldest first."""
        with self._db.reading() as connection:
            return events.newest(connection, events.chosen(job_id, kinds, since_s, reader), last)

    def events_after(self, number: int, most: int = 1000, kinds: Sequence[EventKind] = ()) -> list[Event]:
        """Return the first events after one with a number, oldest first; only of these kinds, or of all."""
        if number >= self._last_event:
            return []
        where = event_table.c.kind.in_([kind.value for kind in kinds]) if kinds else None
        with self._db.reading() as connection:
            return events.after(connection, number, most, where)

    @property
    def last_event(self) -> int:
        """Return the number of the newest event."""
        return self._last_event

    # --- intervals ----------------------------------------------------------------------------------------

    def hold(self, interval: UsageInterval) -> None:
        """Begin an interval of training, and end the one before. Do nothing if both are the same."""
        with self._changing() as changes:
            times = self._times_of(interval.job_id)
            number, before = times.open.get(interval.key, (0, None))
            if before is not None and _same_gpus(before, interval):
                if before.batch_size == interval.batch_size:
                    return
                if before.batch_size is None:  # the first report after a start tells the interval's batch size
                    told = replace(before, batch_size=interval.batch_size, lr=interval.lr)
                    changes.times[interval.job_id] = times.with_open(number, told)
                    changes.intervals[number] = told
                    return
            self._close(changes, interval.job_id, interval.start_s, RUNNING)
            self._open(changes, interval)

    def hold_profile(self, interval: UsageInterval) -> None:
        """Begin the interval of a profile run, which is apart from what the job trains on."""
        with self._changing() as changes:
            self._close(changes, interval.job_id, interval.start_s, PROFILING, interval.gpu_type)
            self._open(changes, replace(interval, phase=PROFILING))

    def release(self, job_id: str, now: float, phase: str = RUNNING, gpu_type: str | None = None) -> None:
        """End the open intervals of a job in a phase, or only those on one GPU type."""
        with self._changing() as changes:
            self._close(changes, job_id, now, phase, gpu_type)

    def intervals(self, job_id: str | None = None, reader: Reader | None = None) -> list[UsageInterval]:
        """Return the intervals of a job, of jobs that a user may read, or of all, oldest first."""
        with self._db.reading() as connection:
            found = intervals.read(connection, None if job_id is None else [job_id], reader)
            return [interval for _, interval in found]

    def held_time(self, job_id: str) -> HeldTime:
        """Return how long a job has held GPUs until now."""
        return self._times_of(job_id).held

    def _times_of(self, job_id: str) -> JobTimes:
        if self._mine and (times := self._levels.times(job_id)) is not None:
            return times
        if (times := self._times.get(job_id)) is not None:
            return times
        with self._db.reading() as connection:
            return _times(connection, [job_id]).get(job_id, JobTimes())

    def _open(self, changes: Changes, interval: UsageInterval) -> None:
        self._last_interval += 1
        changes.times[interval.job_id] = self._times_of(interval.job_id).begun(self._last_interval, interval)
        changes.intervals[self._last_interval] = interval

    def _close(
        self, changes: Changes, job_id: str, now: float, phase: str | None = None, gpu_type: str | None = None
    ) -> None:
        times = self._times_of(job_id)
        for key, (number, interval) in times.open.items():
            if phase in (None, interval.phase) and gpu_type in (None, interval.gpu_type):
                times = times.ended(key, now)
                changes.times[job_id] = times
                changes.intervals[number] = replace(interval, end_s=now)

    # --- what was learned of earlier jobs -----------------------------------------------------------------

    def remember(self, measured: Mapping[str, Measurements], now: float, owner: str = "") -> None:
        """Keep measurements by fingerprint for other jobs of a user, in one transaction."""
        with self._changing() as changes:
            changes.known |= {(owner, key): (one, now) for key, one in measured.items()}

    def recall(self, fingerprint: str, owner: str = "") -> Measurements | None:
        """Return measurements of a user's earlier jobs with this fingerprint; None: none, or they are torn.

        What was measured before jobs had owners counts for every user who has measured nothing yet.
        """
        with self._db.reading() as connection:
            found = known.read(connection, owner, fingerprint)
            return known.read(connection, "", fingerprint) if found is None and owner else found

    def ended_jobs(self, most: int) -> list[ended.Ended]:
        """Return the newest jobs that have ended, in submission order, with what learners look at."""
        with self._db.reading() as connection:
            return ended.newest(connection, most)

    def read_fact(self, key: str) -> str | None:
        """Return a fact of the whole store; None: it is not known."""
        with self._db.reading() as connection:
            return connection.scalar(select(meta.c.value).where(meta.c.key == key))

    def write_fact(self, key: str, value: str) -> None:
        """Keep a fact of the whole store."""
        self.write(tables.fact(key, value))

    def note(self, entry: audit.Entry) -> None:
        """Write a row of the audit log."""
        with self._changing() as changes:
            changes.audit.append(entry)

    def write(self, change: Callable[[Connection], None]) -> None:
        """Have another table written in the transaction under way, or in one of its own."""
        with self._changing() as changes:
            changes.others.append(change)

    def write_beside(self, change: Write) -> None:
        """Write tables of which the store keeps nothing in memory, in a transaction of its own, at once.

        Threads that only read the store, or find nothing to write, do not wait for the disk meanwhile.

        Raises: StoreFailure.
        """
        self._write(change)


def _same_gpus(one: UsageInterval, other: UsageInterval) -> bool:
    same = (one.gpu_type, one.gpus, one.nodes) == (other.gpu_type, other.gpus, other.nodes)
    return same and one.share == other.share


def _times(connection: Connection, job_ids: Sequence[str]) -> dict[str, JobTimes]:
    """Return the times of jobs by their stored intervals."""
    found: dict[str, list[tuple[int, UsageInterval]]] = {}
    chunks = (job_ids[at : at + 500] for at in range(0, len(job_ids), 500))
    for number, interval in chain.from_iterable(intervals.read(connection, chunk) for chunk in chunks):
        found.setdefault(interval.job_id, []).append((number, interval))
    return {job_id: JobTimes.of(of) for job_id, of in found.items()}
