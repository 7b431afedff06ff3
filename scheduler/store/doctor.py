"""Looks a store over and names what is hurt. It changes nothing, and goes on where something cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, func, or_, select
from sqlalchemy.exc import SQLAlchemyError

from ...core.audit import ChainCheck
from ..jobs.record import JobRecord
from . import audit, backup, opening, tables
from .database import reading_engine, shown
from .ended import ENDED
from .failures import StoreError, in_words
from .schema import events, intervals, job_files, jobs

MOST_BACK_S = 120.0  # events are written some time after they happened, and the clock is saved once a minute
MOST = 1000  # findings of one kind


@dataclass(frozen=True)
class Finding:
    """One thing that is hurt.

    kind: `page`, `version`, `row`, `file`, `interval`, `event`, `audit`, `secret`,
        `package` or `checkpoint`.
    text: one sentence. job: the job that it is of; "": of none, or of several.
    """

    kind: str
    text: str
    job: str = ""


@dataclass
class Examined:
    """What a store holds, as far as it can be read.

    jobs: those that can be. counts: rows by table. note: what is no fault, and good to know.
    """

    version: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    jobs: list[JobRecord] = field(default_factory=list)
    newest_s: float | None = None  # when its newest event was
    findings: list[Finding] = field(default_factory=list)
    note: str = ""


def examine(where: Path | str) -> Examined:
    """Look over the store at a path or URL.

    Raises: StoreError where there is none, or its database does not answer.
    """
    url, found = opening.url_of(where), Examined()
    is_file = url.startswith("sqlite")
    if is_file and not Path(shown(url)).is_file():
        raise StoreError(f"{shown(url)}: there is no store; `coadapt up` makes one")
    if is_file:
        found.findings += [Finding("page", text) for text in backup.check(Path(shown(url)))]
    engine = reading_engine(url)
    try:
        with engine.connect() as connection:
            _look(connection, found)
    except SQLAlchemyError as error:
        if not is_file:
            raise StoreError(f"{shown(url)}: the store cannot be read: {in_words(error)}") from None
        found.findings.append(Finding("page", f"it cannot be read: {in_words(error)}"))
    except StoreError as error:
        found.findings.append(Finding("version", str(error)))
    finally:
        engine.dispose()
    return found


def _look(connection: Connection, found: Examined) -> None:
    found.version = opening.version_of(connection)
    if found.version != opening.VERSION:
        told = f"it is of version {found.version}, and this program writes {opening.VERSION}"
        if found.version is not None and found.version > opening.VERSION:
            found.findings.append(Finding("version", f"{told}; use the program that wrote it"))
        else:
            found.note = f"{told}: only its pages were looked at, and the next `coadapt up` brings it to that"
        return
    for table in ("jobs", "job_files", "events", "intervals"):
        _guarded(found, table, partial(_count, connection, table, found))
    looks = {"jobs": _jobs, "job_files": _files, "intervals": _intervals, "events": _events, "audit": _audit}
    for table, look in looks.items():
        _guarded(found, table, partial(look, connection, found))


def _guarded(found: Examined, table: str, look: Callable[[], None]) -> None:
    """Look at one table. One that cannot be read keeps no other from being looked at."""
    try:
        look()
    except (SQLAlchemyError, ValueError, TypeError) as error:
        said = in_words(error) if isinstance(error, SQLAlchemyError) else str(error)
        found.findings.append(Finding("page", f"table {table} cannot be read whole: {said}"))


def _count(connection: Connection, table: str, found: Examined) -> None:
    found.counts[table] = int(connection.exec_driver_sql(f"select count(*) from {table}").scalar() or 0)


def _jobs(connection: Connection, found: Examined) -> None:
    ids = list(connection.scalars(select(jobs.c.id).order_by(jobs.c.number)))
    for at in range(0, len(ids), 500):
        part = ids[at : at + 500]
        try:
            read = list(tables.read_jobs(connection, jobs.c.id.in_(part)))
        except (SQLAlchemyError, ValueError, TypeError):
            read = list(_one_by_one(connection, part, found))
        for one in read:
            if one.unreadable:
                found.findings.append(Finding("row", f"{one.job.id}: {one.job.quarantine}", one.job.id))
            else:
                found.jobs.append(one.job)


def _one_by_one(connection: Connection, ids: Iterable[str], found: Examined) -> Iterator[tables.Found]:
    for job_id in ids:
        try:
            yield from tables.read_jobs(connection, jobs.c.id == job_id)
        except (SQLAlchemyError, ValueError, TypeError) as error:
            said = in_words(error) if isinstance(error, SQLAlchemyError) else str(error)
            found.findings.append(Finding("row", f"{job_id}: its rows cannot be read: {said}", job_id))


def _files(connection: Connection, found: Examined) -> None:
    there = exists().where(job_files.c.job_id == jobs.c.id, job_files.c.file == jobs.c.file)
    following = exists().where(job_files.c.job_id == jobs.c.id, job_files.c.file == jobs.c.next_file)
    lacks = or_(~there, and_(jobs.c.next_file.is_not(None), ~following))
    for job_id in connection.scalars(select(jobs.c.id).where(lacks).limit(MOST)):
        found.findings.append(Finding("file", f"{job_id}: its job file is missing", job_id))


def _intervals(connection: Connection, found: Examined) -> None:
    open_ones = (
        select(intervals.c.id, intervals.c.job_id)
        .join(jobs, jobs.c.id == intervals.c.job_id)
        .where(intervals.c.end_s.is_(None), jobs.c.phase.in_(ENDED))
    )
    for number, job_id in connection.execute(open_ones.limit(MOST)):
        text = f"{job_id}: interval {number} never ends, though the job has ended"
        found.findings.append(Finding("interval", text, job_id))
    backwards = select(intervals.c.id, intervals.c.job_id).where(intervals.c.end_s < intervals.c.start_s)
    for number, job_id in connection.execute(backwards.limit(MOST)):
        found.findings.append(Finding("interval", f"{job_id}: interval {number} ends before it begins", job_id))
    twice = (
        select(intervals.c.job_id, intervals.c.phase, func.count())
        .where(intervals.c.end_s.is_(None), intervals.c.phase == "running")
        .group_by(intervals.c.job_id, intervals.c.phase)
        .having(func.count() > 1)
    )
    for job_id, phase, many in connection.execute(twice.limit(MOST)):
        found.findings.append(Finding("interval", f"{job_id}: {many} intervals of {phase} go on at once", job_id))
    newest = select(func.max(intervals.c.id)).scalar_subquery()  # which stays when its job is removed
    _of_no_job(connection, found, "interval", intervals.c.job_id, intervals.c.id < newest)


def _events(connection: Connection, found: Examined) -> None:
    before = func.lag(events.c.time_s).over(order_by=events.c.id)
    pairs = select(events.c.id, events.c.job_id, events.c.time_s, before.label("before_s")).subquery()
    wrong = select(pairs).where(pairs.c.time_s < pairs.c.before_s - MOST_BACK_S).limit(MOST)
    for row in connection.execute(wrong):
        text = f"event {row.id} is {row.before_s - row.time_s:.0f} s earlier than the one before it"
        found.findings.append(Finding("event", text, row.job_id or ""))
    newest = select(func.max(events.c.id)).scalar_subquery()
    _of_no_job(connection, found, "event", events.c.job_id, events.c.id < newest)
    found.newest_s = connection.scalar(select(events.c.time_s).order_by(events.c.id.desc()).limit(1))


def _audit(connection: Connection, found: Examined) -> None:
    check, after = ChainCheck(), 0
    while rows := audit.read(connection, None, after, MOST, oldest_first=True):
        for row in rows:
            check.see(row)
        after = rows[-1].number
        found.counts["audit_rows"] = check.rows
    if broken := check.end(audit.head(connection)):
        found.findings.append(Finding("audit", broken))


def _of_no_job(
    connection: Connection, found: Examined, kind: str, column: ColumnElement[Any], older: ColumnElement[bool]
) -> None:
    lost = select(column).where(column.is_not(None), older, ~exists().where(jobs.c.id == column)).distinct()
    for name in connection.scalars(lost.limit(MOST)):
        found.findings.append(Finding(kind, f"{name}: there are {kind}s of it, and no such job", name))
