"""The rows of the audit log. A change and its row are written in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, insert, select

from ...core.audit import DONE, FIRST, AuditRow, plain
from ...core.job_limits import without_secrets
from ...core.teams import Priority
from ..jobs.record import JobRecord
from .schema import audit, meta
from .tables import upsert

HEAD = "audit_head"  # the fact that tells the newest row's number and hash


@dataclass
class Entry:
    """What somebody asks for, from which a row is made.

    before, after: what the change makes of its target.
    written: whether a transaction has it.
    """

    verb: str
    user: str = ""
    role: str = ""
    origin: str = ""
    request: str = ""
    target: str = ""
    outcome: str = DONE
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    time_s: float = 0.0
    written: bool = False


_ASKED: ContextVar[Entry | None] = ContextVar("asked", default=None)


@contextmanager
def asking(entry: Entry) -> Iterator[None]:
    """Have the first transaction of this thread within keep what is asked."""
    before = _ASKED.set(entry)
    try:
        yield
    finally:
        _ASKED.reset(before)


def tell(before: Mapping[str, Any] | None = None, after: Mapping[str, Any] | None = None) -> None:
    """Say what a change makes of its target, where a row will be written of it. It holds nothing secret."""
    if (entry := _ASKED.get()) is not None:
        entry.before |= before or {}
        entry.after |= after or {}


class Chain:
    """Numbers new rows and chains them. The caller holds the lock of the store.

    Args:
        highest: the highest number that was ever given, in this store or in one before it.
    """

    def __init__(self, connection: Connection, highest: int) -> None:
        row = connection.execute(select(audit.c.number, audit.c.hash).order_by(audit.c.number.desc())).first()
        self._last = (0, FIRST) if row is None else (row.number, row.hash)
        self._last = max(self._last[0], highest), self._last[1]

    def rows(
        self, entries: Sequence[Entry], before: Mapping[str, JobRecord | None], after: Mapping[str, JobRecord]
    ) -> list[AuditRow]:
        """Return the rows of entries and of what this thread was asked, with what becomes of jobs."""
        asked = _ASKED.get()
        found = [*entries, *([asked] if asked is not None and not asked.written else [])]
        if asked is not None and found and found[-1] is asked:
            _tell_jobs(asked, before, after)
        (number, previous), made = self._last, list[AuditRow]()
        for entry in found:
            number += 1
            row = _row(entry, number, previous)
            made.append(row)
            previous = row.hash
        return made

    def written(self, rows: Sequence[AuditRow]) -> None:
        """Take note of rows that are on disk now."""
        if rows:
            self._last = rows[-1].number, rows[-1].hash
            if (asked := _ASKED.get()) is not None:
                asked.written = True


def _row(entry: Entry, number: int, previous: str) -> AuditRow:
    sides = {"before": without_secrets(entry.before), "after": without_secrets(entry.after)}
    row = AuditRow(
        number=number,
        time_s=entry.time_s,
        user=entry.user,
        role=entry.role,
        origin=entry.origin,
        request=entry.request,
        verb=entry.verb,
        target=entry.target,
        outcome=entry.outcome,
        detail={name: side for name, side in sides.items() if side},
        previous=previous,
    )
    if entry.verb.startswith("audit."):
        row = replace(row, detail=entry.after)
    return replace(row, hash=row.hashed())


def _tell_jobs(entry: Entry, before: Mapping[str, JobRecord | None], after: Mapping[str, JobRecord]) -> None:
    for job_id, job in after.items():
        known = before.get(job_id)
        if known is None and entry.verb == "job.submit":
            entry.target = job_id
        if job_id == entry.target or known is None:
            was, now = {} if known is None else _summary(known), _summary(job)
            changed = [name for name in now if was.get(name) != now[name]]
            entry.before |= {name: was[name] for name in changed if name in was}
            entry.after |= {name: now[name] for name in changed}
            entry.after |= {"id": job_id, "name": job.spec.name, "owner": job.owner} if known is None else {}


def _summary(job: JobRecord) -> dict[str, Any]:
    """Return what people do to a job: nothing of what its file says beyond its package."""
    return {
        "phase": job.phase.value,
        "paused": job.paused,
        "on_hold": job.on_hold,
        "priority": (job.spec.priority or Priority.NORMAL).value,
        "time_limit": job.spec.time_limit,
        "bumped": job.bumped,
        "quarantined": bool(job.quarantine),
        "package": job.package or "",
        "life": job.life,
        "cancelling": job.cancelled_s is not None,
        "changed_file": job.changed is not None,
    }


def append(connection: Connection, rows: Sequence[AuditRow]) -> None:
    """Write rows, and which one is the newest."""
    if rows:
        connection.execute(insert(audit), [{**asdict(row), "detail": plain(row.detail)} for row in rows])
        head = {"key": HEAD, "value": plain([rows[-1].number, rows[-1].hash])}
        upsert(connection, meta, ("key",), [head])


def head(connection: Connection) -> tuple[int, str] | None:
    """Return the number and hash of the newest row, as they are told beside the rows; None: no row was written."""
    told = connection.scalar(select(meta.c.value).where(meta.c.key == HEAD))
    if told is None:
        return None
    number, hash = json.loads(told)
    return int(number), str(hash)


def chosen(
    user: str | None, job: str | None, verb: str | None, since_s: float | None
) -> ColumnElement[bool] | None:
    """Return the condition that fits rows of a user, a job, a verb or a kind of verbs, and of some time."""
    conditions = list[ColumnElement[bool]]()
    if user is not None:
        conditions.append(audit.c.user == user)
    if job is not None:
        conditions += [audit.c.target == job, audit.c.verb.like("job.%")]
    if verb is not None:
        conditions.append((audit.c.verb == verb) | audit.c.verb.startswith(f"{verb}.", autoescape=True))
    if since_s is not None:
        conditions.append(audit.c.time_s >= since_s)
    return and_(*conditions) if conditions else None


def read(
    connection: Connection,
    where: ColumnElement[bool] | None,
    after: int | None,
    most: int,
    *,
    oldest_first: bool = False,
) -> list[AuditRow]:
    """Return the first rows that fit and come after one with a number; None: the first ones."""
    number = audit.c.number
    query = select(audit).order_by(number if oldest_first else number.desc()).limit(most)
    if after is not None:
        query = query.where(number > after if oldest_first else number < after)
    found = connection.execute(query if where is None else query.where(where)).mappings()
    return [AuditRow(**{**row, "detail": json.loads(row["detail"])}) for row in found]
