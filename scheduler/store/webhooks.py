"""Webhooks in the store, and what is on its way to them. URLs and secrets lie sealed among the secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, tuple_

from . import tables
from .database import Database
from .schema import deliveries, webhooks

FACT = "delivered"  # the number of the newest event that was looked at
_CHUNK = 400  # rows of a statement
Write = Callable[[Connection], None]


def read(database: Database) -> list[dict[str, Any]]:
    """Return all webhooks by their numbers."""
    with database.reading() as connection:
        return [dict(row) for row in connection.execute(select(webhooks).order_by(webhooks.c.number)).mappings()]


def add(row: dict[str, Any]) -> Write:
    """Return a write that keeps a new webhook. Its number is never given twice."""

    def write(connection: Connection) -> None:
        connection.execute(insert(webhooks), row)

    return write


def remove(number: int) -> Write:
    """Return a write that removes a webhook and all that waits for it."""

    def write(connection: Connection) -> None:
        connection.execute(delete(deliveries).where(deliveries.c.webhook == number))
        connection.execute(delete(webhooks).where(webhooks.c.number == number))

    return write


def waiting(database: Database) -> list[tuple[int, int, str, float]]:
    """Return webhook, event, job and moment of all that waits, in the order of events."""
    columns = (deliveries.c.webhook, deliveries.c.event, deliveries.c.job_id, deliveries.c.at_s)
    with database.reading() as connection:
        return [tuple(row) for row in connection.execute(select(*columns).order_by(deliveries.c.event))]


def bodies(database: Database, keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """Return what is sent, by webhook and event."""
    found: dict[tuple[int, int], str] = {}
    with database.reading() as connection:
        for some in _chunks(keys):
            query = select(deliveries).where(tuple_(deliveries.c.webhook, deliveries.c.event).in_(some))
            found |= {(row.webhook, row.event): row.body for row in connection.execute(query)}
    return found


def looked(rows: Sequence[dict[str, Any]], done: Iterable[tuple[int, int]], cursor: int) -> Write:
    """Return a write of one look: what waits from now on, what no longer does, and the newest event it saw."""
    done, fact = list(done), tables.fact(FACT, str(cursor))

    def write(connection: Connection) -> None:
        tables.upsert(connection, deliveries, ("webhook", "event"), rows)
        for some in _chunks(done):
            connection.execute(
                delete(deliveries).where(tuple_(deliveries.c.webhook, deliveries.c.event).in_(some))
            )
        fact(connection)

    return write


def _chunks(keys: Sequence[tuple[int, int]]) -> Iterable[Sequence[tuple[int, int]]]:
    return (keys[at : at + _CHUNK] for at in range(0, len(keys), _CHUNK))
