"""Reads and writes the rows of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Table,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from ...core.identity import Reader
from ..jobs.record import JobRecord
from . import record_rows
from .readers import told_to
from .record_rows import JobRows
from .schema import job_details, job_files, job_reports, jobs, measurements, meta

_CHUNK = 500  # jobs that are read at a time


@dataclass(frozen=True)
class Found:
    """A job that was read.

    job: its record. Where its rows cannot be read, a record that holds what can be told of it all the same.
    file, following: numbers of its files, of the one that counts and of the next one.
    unreadable: whether its rows cannot be read; `job.quarantine` says why.
    """

    job: JobRecord
    file: int
    following: int | None
    unreadable: bool = False


def upsert(connection: Connection, table: Table, keys: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of equal columns, or change those that are there."""
    if rows:
        connection.execute(_upsert(table, tuple(keys), connection.dialect.name), list(rows))


def fact(key: str, value: str) -> Callable[[Connection], None]:
    """Return a write that keeps a fact of the whole store."""
    return lambda connection: upsert(connection, meta, ("key",), [{"key": key, "value": value}])


@cache
def _upsert(table: Table, keys: tuple[str, ...], dialect: str) -> Any:
    statement = (sqlite if dialect == "sqlite" else postgresql).insert(table)
    rest = {column.name: statement.excluded[column.name] for column in table.c if column.name not in keys}
    return statement.on_conflict_do_update(index_elements=list(keys), set_=rest)


@cache
def _changing(names: tuple[str, ...]) -> Any:
    return update(jobs).where(jobs.c.id == bindparam("_id")).values({name: bindparam(name) for name in names})


def insert_jobs(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows of `jobs`."""
    if rows:
        connection.execute(insert(jobs), list(rows))


def change_jobs(connection: Connection, changed: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Change columns of `jobs`; jobs with the same changed columns are written together."""
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for job_id, columns in changed:
        alike.setdefault(tuple(sorted(columns)), []).append({**columns, "_id": job_id})
    for names, rows in alike.items():
        connection.execute(_changing(names), rows)


def write_files(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write job files."""
    upsert(connection, job_files, ("job_id", "file"), rows)


def write_texts(connection: Connection, table: Table, texts: Mapping[str, str]) -> None:
    """Write the one text per job of `job_details` or `job_reports`."""
    column = "details" if table is job_details else "report"
    upsert(connection, table, ("job_id",), [{"job_id": id, column: text} for id, text in texts.items()])


def write_measurements(connection: Connection, rows: Sequence[tuple[str, str, str]]) -> None:
    """Write (job id, GPU type, text) of measurements."""
    named = [{"job_id": id, "gpu_type": t, "measured": text} for id, t, text in rows]
    upsert(connection, measurements, ("job_id", "gpu_type"), named)


def chosen(
    phases: Sequence[str],
    owner: str | None,
    name: str | None,
    ids: Sequence[str] = (),
    reader: Reader | None = None,
    team: str | None = None,
    array: str | None = None,
) -> ColumnElement[bool] | None:
    """Return the condition that fits jobs of some phases, a user, a name and so on; empty or None: of all.

    Args:
        reader: only jobs that this user may read.
    """
    conditions = list[ColumnElement[bool]]()
    if phases:
        conditions.append(jobs.c.phase.in_(phases))
    if ids:
        conditions.append(jobs.c.id.in_(ids))
    if array is not None:
        conditions.append(jobs.c.array == array)
    if team is not None:
        conditions.append(jobs.c.team == team)
    if reader is not None:
        conditions.append(told_to(reader))
    if owner is not None:
        conditions.append(jobs.c.owner == owner)
    if name is not None:
        conditions.append((jobs.c.name == name) | (jobs.c.id == name))
    return and_(*conditions) if conditions else None


def one_of_each_array(where: ColumnElement[bool] | None) -> ColumnElement[bool]:
    """Return the condition that fits jobs of no array, and of each array the newest one that fits `where`."""
    fits = and_(jobs.c.array != "", *([] if where is None else [where]))
    newest = select(func.max(jobs.c.number)).where(fits).group_by(jobs.c.array).correlate(None)
    return or_(jobs.c.array == "", jobs.c.number.in_(newest))


def newest_ids(connection: Connection, conditions: Sequence[ColumnElement[bool]], most: int) -> list[str]:
    """Return the ids of the newest jobs that fit all conditions, newest first."""
    query = select(jobs.c.id).where(*conditions).order_by(jobs.c.number.desc()).limit(most)
    return list(connection.scalars(query))


def read_jobs(connection: Connection, where: ColumnElement[bool] | None = None) -> Iterator[Found]:
    """Yield the jobs that fit a condition by their numbers."""
    last: int | None = None
    while True:
        query = select(jobs).order_by(jobs.c.number).limit(_CHUNK)
        if where is not None:
            query = query.where(where)
        if last is not None:
            query = query.where(jobs.c.number > last)
        found = connection.execute(query).mappings().all()
        yield from _with_rest(connection, found)
        if len(found) < _CHUNK:
            return
        last = found[-1]["number"]


def _with_rest(connection: Connection, found: Sequence[RowMapping]) -> Iterator[Found]:
    ids = [row["id"] for row in found]
    files = {(row.job_id, row.file): row for row in connection.execute(_of(job_files, ids))}
    details = {row.job_id: row.details for row in connection.execute(_of(job_details, ids))}
    reports = {row.job_id: row.report for row in connection.execute(_of(job_reports, ids))}
    measured: dict[str, dict[str, str]] = {}
    for row in connection.execute(_of(measurements, ids).order_by(measurements.c.gpu_type)):
        measured.setdefault(row.job_id, {})[row.gpu_type] = row.measured
    for one in found:
        job_id = one["id"]
        file, following = files.get((job_id, one["file"])), files.get((job_id, one["next_file"]))
        rows = JobRows(
            dict(one),
            file.spec if file is not None else "",
            file.package if file is not None else None,
            file.script_key if file is not None else "",
            None if following is None else (following.spec, following.package, following.script_key),
            details.get(job_id, "{}"),
            reports.get(job_id, "{}"),
            measured.get(job_id),
        )
        yield found_of(rows)


def _of(table: Table, ids: Sequence[str]) -> Any:
    return select(table).where(table.c.job_id.in_(ids))


def found_of(rows: JobRows) -> Found:
    """Return the job of these rows, also where they cannot be read."""
    file, following = rows.columns["file"], rows.columns["next_file"]
    try:
        return Found(record_rows.record(rows), file, following)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = " ".join(str(error).split())
        why = f"its record cannot be read: {type(error).__name__}: {what}"
        return Found(record_rows.stand_in(rows, why), file, following, unreadable=True)
