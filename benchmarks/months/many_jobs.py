"""A store as it is after months: jobs that have ended, and jobs that were measured and wait."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from coadapt.core.job import JobSpec, Phase
from coadapt.core.reports import JobInfo, StepRow
from coadapt.core.settings import Settings
from coadapt.estimators.measurements import Measurements, fits_of
from coadapt.scheduler.jobs.lifecycle import advance
from coadapt.scheduler.jobs.record import JobRecord, ProfileRun
from coadapt.scheduler.runtime.clock import SystemClock
from coadapt.scheduler.store.events import Event, EventKind
from coadapt.scheduler.store.intervals import UsageInterval
from coadapt.scheduler.store.store import Store

OWNERS = ("ann", "bob", "eve", "joe")
TEAMS = {"ann": "vision", "bob": "speech", "eve": "ads", "joe": "lab"}
BATCH = 1000
GPU_TYPE = "t4"
SPEC = {"name": "job", "script": "train.py", "resources": {"max_gpus": 1}}
LIVES_S = 3600.0  # between two that ended


@cache
def measured() -> Measurements:
    """Return what is known of a small model on one GPU type, with the fit that executors send along."""
    found = Measurements().with_info(JobInfo("net", 64, 10_000_000, 100_000, adam_type=False))
    rows = [StepRow(1, 1, size, 0, 0.002 * size, 0.0, 20) for size in (8, 16, 32, 64, 128)]
    known = replace(found, grad_sqr=1.0, grad_var=1000.0).with_rows(GPU_TYPE, rows)
    known.take_fits(fits_of(known.unfitted()))
    return known


def fill(settings: Settings, ended: int, queued: int, of_teams: bool = False) -> None:
    """Write a new store with so many jobs that have ended, and so many that wait behind them.

    Args:
        of_teams: whether those that wait are jobs of `teams_of`.
    """
    store = Store(settings.store_path)
    now = SystemClock().steady_s()
    try:
        if ended:
            _end_one(store, now - LIVES_S)
    finally:
        store.close()
    with closing(sqlite3.connect(settings.store_path)) as connection, connection:
        _copy(connection, ended - 1)
    store = Store(settings.store_path)
    try:
        for first in range(0, queued, BATCH):
            with store.together():
                names = range(first, min(first + BATCH, queued))
                store.save_all([_waiting(store, f"waiting-{at}", now, of_teams) for at in names], [], now)
    finally:
        store.close()


def _end_one(store: Store, now: float) -> None:
    job = _waiting(store, "ended-0", now)
    store.hold(UsageInterval(job.id, now, None, GPU_TYPE, 1, 1, 64, 0.1))
    store.release(job.id, now + LIVES_S / 2)
    for phase in (Phase.QUEUED, Phase.RUNNING, Phase.SUCCEEDED):
        job = replace(job, state=advance(job.state, phase, now + LIVES_S / 2 * phase.is_terminal))
        store.save(job)
    store.save(replace(job, retired=True, metrics={"loss": 0.5}))
    store.log(*(Event(EventKind.LEARNED, now, job.id) for _ in range(3)))


def _waiting(store: Store, key: str, now: float, of_teams: bool = False) -> JobRecord:
    owner = OWNERS[hash_of(key) % len(OWNERS)]
    spec = JobSpec.model_validate(SPEC | ({"team": TEAMS[owner]} if of_teams else {}))
    job, _ = store.submit(spec, now, idempotency_key=key, owner=owner)
    return replace(
        job,
        state=advance(job.state, Phase.QUEUED, now),
        measurements=measured(),
        profiles=(ProfileRun(GPU_TYPE, ok=True),),
        largest_gpus={GPU_TYPE: 1},
    )


def teams_of(gpus: int) -> dict[str, Any]:
    """Return a file of teams that are guaranteed three quarters of a cluster, and may each have half of it."""
    promised = {"guarantee": {GPU_TYPE: gpus * 3 // 16}, "cap": {GPU_TYPE: gpus // 2}}
    teams = {team: {"users": [user], **promised} for user, team in TEAMS.items()}
    teams[TEAMS[OWNERS[0]]]["default"] = True
    return {"teams": teams}


def hash_of(text: str) -> int:
    """Return a number of a text that is the same in each process."""
    return int(np.frombuffer(text.encode().ljust(64, b"\0")[:64], np.uint8).sum())


def _copy(connection: sqlite3.Connection, count: int) -> None:
    """Copy the one job of a store, with all its rows, under other names and numbers."""
    if count < 1:
        return
    (template,) = connection.execute("select id from jobs").fetchone()
    for table, key in (("jobs", "id"), *((name, "job_id") for name in _tables_of_jobs(connection))):
        cursor = connection.execute(f"select * from {table} where {key} = ?", (template,))
        columns = [one[0] for one in cursor.description]
        rows = cursor.fetchall()
        kept = [name for name in columns if name != "id" or table == "jobs"]
        words = ", ".join(f'"{name}"' for name in kept)
        marks = ", ".join("?" * len(kept))
        copies = chain.from_iterable(
            ([_changed(table, name, row[columns.index(name)], at) for name in kept] for row in rows)
            for at in range(2, count + 2)
        )
        connection.executemany(f"insert into {table} ({words}) values ({marks})", copies)


def _tables_of_jobs(connection: sqlite3.Connection) -> list[str]:
    names = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
    return [
        name
        for name in names
        if any(row[1] == "job_id" for row in connection.execute(f"pragma table_info({name})"))
    ]


def _changed(table: str, column: str, value: object, at: int) -> object:
    """Return a value of the template in its `at`-th copy."""
    if column == ("id" if table == "jobs" else "job_id"):
        return f"job-{at}"
    if column == "number" and table == "jobs":
        return at
    if column == "idempotency_key":
        return f"ended-{at}"
    if column == "owner":
        return OWNERS[at % len(OWNERS)]
    return value
