"""The log: every change that people may want to know of, in order, with its cause."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, insert, select

from ...core.events import EventKind
from ...core.identity import Reader
from ...core.json_numbers import dumps
from .readers import told_to
from .schema import events, jobs


@dataclass(frozen=True)
class Event:
    """One line of the log.

    job_id: None for events of the cluster.
    cause: what led to it, in a word or two.
    who: the user or the part of the system that asked for it; "": the scheduler itself.
    number: its place in the log, which no other event ever has; 0 before it is stored.
    """

    kind: EventKind
    time_s: float
    job_id: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    cause: str = ""
    who: str = ""
    number: int = 0


OF_CLUSTER = events.c.job_id.is_(None) & (events.c.kind != EventKind.PLAN.value)


def append(connection: Connection, found: Sequence[Event]) -> None:
    """Write events that have their numbers."""
    if found:
        connection.execute(insert(events), [_row(event) for event in found])


def _row(event: Event) -> dict[str, Any]:
    return {
        "id": event.number,
        "time_s": event.time_s,
        "job_id": event.job_id,
        "kind": event.kind.value,
        "cause": event.cause,
        "who": event.who,
        "data": dumps(dict(event.data)),
    }


def newest(connection: Connection, where: ColumnElement[bool] | None, last: int) -> list[Event]:
    """Return the newest events that fit a condition, oldest first."""
    query = select(events).order_by(events.c.id.desc()).limit(last)
    rows = connection.execute(query if where is None else query.where(where)).all()
    return [_event(row) for row in reversed(rows)]


def after(connection: Connection, number: int, most: int, where: ColumnElement[bool] | None = None) -> list[Event]:
    """Return the first events after one with a number, oldest first."""
    query = select(events).where(events.c.id > number).order_by(events.c.id).limit(most)
    return [_event(row) for row in connection.execute(query if where is None else query.where(where))]


def chosen(
    job_id: str | None, kinds: Sequence[str], since_s: float | None, reader: Reader | None
) -> ColumnElement[bool] | None:
    """Return the condition that fits events of a job, some kinds, some time, and jobs that a user may read.

    Plans are left out unless they are asked for: each round may bring one.
    """
    conditions = [events.c.kind.in_(kinds) if kinds else events.c.kind != EventKind.PLAN.value]
    if job_id is not None:
        conditions.append(events.c.job_id == job_id)
    if since_s is not None:
        conditions.append(events.c.time_s >= since_s)
    if reader is not None:
        own = exists().where(jobs.c.id == events.c.job_id, told_to(reader))
        conditions.append(events.c.job_id.is_(None) | own)
    return and_(*conditions)


def _event(row: Any) -> Event:
    return Event(_kind(row.kind), row.time_s, row.job_id, json.loads(row.data), row.cause, row.who, row.id)


def _kind(text: str) -> EventKind:
    """Return the kind; one that only a later version knows has a kind of its own."""
    try:
        return EventKind(text)
    except ValueError:
        return EventKind.OTHER
