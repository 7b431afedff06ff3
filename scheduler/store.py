"""The durable job store: one sqlite file, in which every change of state is one transaction.

A change is on disk before anyone acts on it. So a service that was killed finds at least what it has already
caused. The store also keeps a log of events, the intervals in which jobs held GPUs, machines, and profiles of
earlier jobs by fingerprint. Measurements are values in memory and JSON on disk: read once, and written when they
change. The store knows no Ray.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.events import EventKind
from ..core.job import JobSpec, JobState
from ..core.json_numbers import dumps
from ..estimators.measurements import Measurements
from .held_time import TRAINING, HeldTime
from .job_lifecycle import check
from .record import JobRecord, Origin
from .text_rows import TextRows
from .transactions import Transactions
from .unnamed_devices import with_names

SCHEMA_VERSION = 1
_SCHEMA = """
create table if not exists meta(key text primary key, value text not null);
create table if not exists jobs(
    id text primary key, number integer not null unique, idempotency_key text unique,
    phase text not null, record text not null, measurements text not null default '');
create table if not exists events(
    id integer primary key autoincrement, time_s real not null, job_id text, kind text not null,
    data text not null);
create index if not exists events_of_job on events(job_id, id);
create index if not exists events_of_cluster on events(id) where job_id is null and kind<>'plan';
create table if not exists intervals(
    id integer primary key autoincrement, job_id text not null, start_s real not null, end_s real,
    gpu_type text not null, gpus integer not null, nodes integer not null, batch_size integer, lr real,
    phase text not null);
create index if not exists intervals_of_job on intervals(job_id, id);
create table if not exists profiles(
    fingerprint text primary key, time_s real not null, measurements text not null);
create table if not exists machines(name text primary key, text text not null);
"""


@dataclass(frozen=True)
class Event:
    """One line of the log. `job_id` is None for events of the cluster."""

    kind: EventKind
    time_s: float
    job_id: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class UsageInterval:
    """A time in which a job held `gpus` GPUs of a type on `nodes` nodes. `end_s` is None while it goes on."""

    job_id: str
    start_s: float
    end_s: float | None
    gpu_type: str
    gpus: int
    nodes: int
    batch_size: int | None = None
    lr: float | None = None
    phase: str = "running"  # or "profiling"


class StoreError(RuntimeError):
    """The store cannot be used: wrong version, or not a store."""


class Store:
    """Jobs by id, in memory and on disk. Several threads may call it.

    One process at a time writes a store. Others may read it meanwhile.

    Raises: StoreError if the file is of another version or no store.
    """

    def __init__(self, path: Path | str) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
            self._db.execute("pragma journal_mode=wal")
            self._db.execute("pragma synchronous=full")
            self._db.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{path}: not a job store ({error})") from error
        self._transactions = Transactions(self._db)
        self.machine_rows = TextRows(self._db, self._lock, self._transactions, "machines")
        self._check_version(path)
        self._jobs: dict[str, JobRecord] = {}
        self._unretired: dict[str, JobRecord] = {}
        self._held: dict[str, HeldTime] = {}
        self.unreadable: dict[str, str] = {}  # job id -> what is wrong with its record
        self.unnamed: set[str] = set()  # jobs of an earlier version, whose stored slots name no GPUs
        self._read_jobs()
        self._read_held_times()

    def _read_jobs(self) -> None:
        """Read every record. One that does not parse is set aside, so that the other jobs go on."""
        for job_id, text, measured in self._db.execute(
            "select id, record, measurements from jobs order by number"
        ):
            try:
                job = JobRecord.from_json(text, Measurements.from_json(measured) if measured else None)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self.unreadable[job_id] = f"its record cannot be read: {type(error).__name__}: {error}"
                continue
            self._keep(job)
        for job in with_names(self._unretired.values()):
            self._keep(job)
            self.unnamed.add(job.id)

    def _read_held_times(self) -> None:
        rows = self._db.execute("select job_id, start_s, end_s, gpu_type, gpus, phase from intervals order by id")
        for job_id, start_s, end_s, gpu_type, gpus, phase in rows:
            key = TRAINING if phase == "running" else gpu_type
            held = self.held_time(job_id).begun(key, start_s, gpus)
            self._held[job_id] = held if end_s is None else held.ended(key, end_s)

    def _keep(self, job: JobRecord) -> None:
        """Keep a job in memory. If the transaction under way fails, the old record comes back."""
        before = self._jobs.get(job.id)
        self._transactions.on_failure(lambda: self._put_back(job.id, before))
        self._jobs[job.id] = job
        if not job.retired and before is not None and before.retired:
            self._sort_unretired()
        elif not job.retired:
            self._unretired[job.id] = job
        else:
            self._unretired.pop(job.id, None)

    def _put_back(self, job_id: str, before: JobRecord | None) -> None:
        if before is None:
            del self._jobs[job_id]
            self._unretired.pop(job_id, None)
            return
        self._jobs[job_id] = before
        if before.retired:
            self._unretired.pop(job_id, None)
        elif job_id in self._unretired:
            self._unretired[job_id] = before
        else:
            self._sort_unretired()

    def _sort_unretired(self) -> None:
        """Collect the jobs that are not retired anew, in their order."""
        self._unretired = {job.id: job for job in self._jobs.values() if not job.retired}

    def _check_version(self, path: Path) -> None:
        self._db.execute("insert or ignore into meta values('version', ?)", (str(SCHEMA_VERSION),))
        (found,) = self._db.execute("select value from meta where key='version'").fetchone()
        if int(found) != SCHEMA_VERSION:
            raise StoreError(f"{path}: store version {found}, this program writes version {SCHEMA_VERSION}")

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make one transaction of all writes within: all of them are kept, or none."""
        with self._lock, self._transactions.begin():
            yield

    # --- jobs ---------------------------------------------------------------------------------------------

    @property
    def jobs(self) -> Mapping[str, JobRecord]:
        """A copy of all jobs by id, in submission order."""
        with self._lock:
            return dict(self._jobs)

    @property
    def unretired(self) -> Mapping[str, JobRecord]:
        """A copy of the jobs that are active or may still hold something, in submission order."""
        with self._lock:
            return dict(self._unretired)

    def find(self, job_id: str) -> JobRecord | None:
        """Return the job, or None."""
        with self._lock:
            return self._jobs.get(job_id)

    def get(self, job_id: str) -> JobRecord:
        """Return the job. Raises: KeyError with a sentence for a person."""
        with self._lock:
            if job_id in self.unreadable:
                raise KeyError(f"job {job_id}: {self.unreadable[job_id]}")
            if job_id not in self._jobs:
                raise KeyError(f"no job {job_id}")
            return self._jobs[job_id]

    def submitted(self, idempotency_key: str) -> JobRecord | None:
        """Return the job that a call with this key made, or None. Raises: KeyError if its record is unreadable."""
        with self._lock:
            row = self._db.execute("select id from jobs where idempotency_key=?", (idempotency_key,)).fetchone()
            return None if row is None else self.get(row[0])

    def submit(
        self,
        spec: JobSpec,
        now: float,
        *,
        idempotency_key: str,
        package: str | None = None,
        script_key: str = "",
        origin: Origin | None = None,
        owner: str = "",
    ) -> tuple[JobRecord, bool]:
        """Return the new job, or the one that an earlier call with the same key made, and whether it is new."""
        with self._lock:
            if (known := self.submitted(idempotency_key)) is not None:
                return known, False
            (number,) = self._db.execute("select coalesce(max(number), 0) + 1 from jobs").fetchone()
            job = JobRecord(
                id=f"{spec.name}-{number}",
                number=number,
                spec=spec,
                state=JobState(submitted_s=now),
                package=package,
                script_key=script_key,
                origin=origin,
                owner=owner,
            )
            told = {} if origin is None else {"text": f"forked from {origin.job_id} at step {origin.steps}"}
            event = Event(EventKind.SUBMIT, now, job.id, {"spec": spec.model_dump(mode="json"), **told})
            with self._transactions.begin():
                self._db.execute(
                    "insert into jobs(id, number, idempotency_key, phase, record) values(?,?,?,?,?)",
                    (job.id, number, idempotency_key, job.phase.value, job.to_json()),
                )
                self._append([event])
                self._keep(job)
            return job, True

    def save(self, job: JobRecord, *events: Event, now: float | None = None) -> JobRecord:
        """Write a changed job and what happened, in one transaction. End its intervals if it has ended by `now`.

        Raises: IllegalTransition where the phase cannot follow the stored one; KeyError for an unknown job.
        """
        return self.save_all([job], events, now)[0]

    def save_all(self, jobs: Sequence[JobRecord], events: Sequence[Event], now: float | None) -> list[JobRecord]:
        """Write several jobs that one decision changed: all of them or none. Raises: as `save`."""
        with self._lock:
            for job in jobs:
                check(self.get(job.id).phase, job.phase)
            with self._transactions.begin():
                for job in jobs:
                    self._db.execute(
                        "update jobs set phase=?, record=? where id=?", (job.phase.value, job.to_json(), job.id)
                    )
                    if job.measurements is not self._jobs[job.id].measurements:
                        self._db.execute(
                            "update jobs set measurements=? where id=?", (_as_json(job.measurements), job.id)
                        )
                    if now is not None and not job.active:
                        self._close_interval(job.id, now)
                    self._keep(job)
                self._append(events)
            return list(jobs)

    # --- the log ------------------------------------------------------------------------------------------

    def log(self, *events: Event) -> None:
        with self._lock, self._transactions.begin():
            self._append(events)

    def events(self, job_id: str | None = None, last: int = 100) -> list[Event]:
        """Return the newest events of one job or of all, oldest first."""
        where, args = ("where job_id=?", (job_id,)) if job_id is not None else ("", ())
        return self._newest(where, args, last)

    def cluster_events(self, last: int = 10) -> list[Event]:
        """Return the newest events that are of no job, oldest first. Plans are left out."""
        return self._newest("where job_id is null and kind<>'plan'", (), last)

    def _newest(self, where: str, args: tuple[str, ...], last: int) -> list[Event]:
        with self._lock:
            rows = self._db.execute(
                f"select kind, time_s, job_id, data from events {where} order by id desc limit ?", (*args, last)
            ).fetchall()
        return [
            Event(EventKind(kind), time_s, job, json.loads(data)) for kind, time_s, job, data in reversed(rows)
        ]

    # --- intervals ----------------------------------------------------------------------------------------

    def hold(self, interval: UsageInterval) -> None:
        """Begin an interval of training, and end the one before. Do nothing if both are the same."""
        with self._lock:
            row = None
            if TRAINING in self.held_time(interval.job_id).open:
                row = self._db.execute(
                    "select id, gpu_type, gpus, nodes, batch_size from intervals "
                    "where job_id=? and end_s is null and phase='running' order by id desc limit 1",
                    (interval.job_id,),
                ).fetchone()
            now = (interval.gpu_type, interval.gpus, interval.nodes, interval.batch_size)
            if row is not None and row[1:] == now:
                return
            with self._transactions.begin():
                if row is not None and row[1:4] == now[:3] and row[4] is None:
                    # The first report after a start tells the interval's batch size.
                    self._db.execute(
                        "update intervals set batch_size=?, lr=? where id=?",
                        (interval.batch_size, interval.lr, row[0]),
                    )
                    return
                self._close_interval(interval.job_id, interval.start_s, "running")
                self._open_interval(interval)

    def hold_profile(self, interval: UsageInterval) -> None:
        """Begin the interval of a profile run, which is apart from what the job trains on."""
        with self._lock, self._transactions.begin():
            self._close_interval(interval.job_id, interval.start_s, "profiling", interval.gpu_type)
            self._open_interval(replace(interval, phase="profiling"))

    def release(self, job_id: str, now: float, phase: str = "running", gpu_type: str | None = None) -> None:
        """End the open intervals of a job in a phase, or only those on one GPU type."""
        with self._lock:
            if self.held_time(job_id).open:
                with self._transactions.begin():
                    self._close_interval(job_id, now, phase, gpu_type)

    def intervals(self, job_id: str | None = None) -> list[UsageInterval]:
        where, args = ("where job_id=?", (job_id,)) if job_id is not None else ("", ())
        with self._lock:
            rows = self._db.execute(
                "select job_id, start_s, end_s, gpu_type, gpus, nodes, batch_size, lr, phase "
                f"from intervals {where} order by id",
                args,
            ).fetchall()
        return [UsageInterval(*row) for row in rows]

    def held_time(self, job_id: str) -> HeldTime:
        """Return how long a job has held GPUs until now."""
        with self._lock:
            return self._held.get(job_id, _NEVER_HELD)

    # --- profiles of earlier jobs -------------------------------------------------------------------------

    def remember(self, known: Mapping[str, Measurements], now: float) -> None:
        """Keep measurements by fingerprint, in one transaction."""
        texts = {id(measured): measured.to_json() for measured in known.values()}
        rows = [(key, now, texts[id(measured)]) for key, measured in known.items()]
        with self._lock, self._transactions.begin():
            self._db.executemany("replace into profiles values(?,?,?)", rows)

    def recall(self, fingerprint: str) -> Measurements | None:
        """Return measurements of earlier jobs with this fingerprint; None if there are none or they are torn."""
        with self._lock:
            row = self._db.execute(
                "select measurements from profiles where fingerprint=?", (fingerprint,)
            ).fetchone()
        if row is None:
            return None
        try:
            return Measurements.from_json(row[0])
        except (ValueError, KeyError, TypeError, AttributeError):
            return None  # it can be measured again

    # --- inside -------------------------------------------------------------------------------------------

    def _append(self, events: Sequence[Event]) -> None:
        self._db.executemany(
            "insert into events(time_s, job_id, kind, data) values(?,?,?,?)",
            [(e.time_s, e.job_id, e.kind, dumps(dict(e.data))) for e in events],
        )

    def _set_held_time(self, job_id: str, held: HeldTime) -> None:
        before = self.held_time(job_id)
        self._transactions.on_failure(lambda: self._held.update({job_id: before}))
        self._held[job_id] = held

    def _open_interval(self, interval: UsageInterval) -> None:
        key = TRAINING if interval.phase == "running" else interval.gpu_type
        held = self.held_time(interval.job_id).begun(key, interval.start_s, interval.gpus)
        self._set_held_time(interval.job_id, held)
        self._db.execute(
            "insert into intervals(job_id, start_s, gpu_type, gpus, nodes, batch_size, lr, phase) "
            "values(?,?,?,?,?,?,?,?)",
            (
                interval.job_id,
                interval.start_s,
                interval.gpu_type,
                interval.gpus,
                interval.nodes,
                interval.batch_size,
                interval.lr,
                interval.phase,
            ),
        )

    def _close_interval(
        self, job_id: str, now: float, phase: str | None = None, gpu_type: str | None = None
    ) -> None:
        held = self.held_time(job_id)
        ending = [
            key
            for key in held.open
            if (phase is None or (key == TRAINING) == (phase == "running")) and gpu_type in (None, key)
        ]
        if not ending:
            return
        for key in ending:
            held = held.ended(key, now)
        self._set_held_time(job_id, held)
        self._db.execute(
            "update intervals set end_s=:now where job_id=:job and end_s is null "
            "and phase=coalesce(:phase, phase) and gpu_type=coalesce(:type, gpu_type)",
            {"now": now, "job": job_id, "phase": phase, "type": gpu_type},
        )


_NEVER_HELD = HeldTime()


def _as_json(measured: Measurements | None) -> str:
    return measured.to_json() if measured is not None else ""
