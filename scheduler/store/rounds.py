"""What the last rounds decided, in the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, func, insert, select

from ...core.json_numbers import dumps
from .schema import rounds


def append(time_s: float, told: Mapping[str, Any]) -> Callable[[Connection], None]:
    """Return a write that keeps a round after all others."""

    def write(connection: Connection) -> None:
        number = (connection.scalar(select(func.max(rounds.c.number))) or 0) + 1
        connection.execute(insert(rounds), [{"number": number, "time_s": time_s, "data": dumps(dict(told))}])

    return write


def read(
    connection: Connection, before: int | None, most: int, since_s: float | None = None
) -> list[dict[str, Any]]:
    """Return the newest rounds with numbers below `before`, newest first."""
    query = select(rounds).order_by(rounds.c.number.desc()).limit(most)
    if before is not None:
        query = query.where(rounds.c.number < before)
    if since_s is not None:
        query = query.where(rounds.c.time_s >= since_s)
    return [
        {"number": row.number, "time_s": row.time_s} | json.loads(row.data) for row in connection.execute(query)
    ]


def at(connection: Connection, number: int | None, time_s: float | None) -> dict[str, Any] | None:
    """Return a round by its number, or the newest one by a moment; without both, the newest of all."""
    query = select(rounds).order_by(rounds.c.number.desc()).limit(1)
    if number is not None:
        query = query.where(rounds.c.number == number)
    if time_s is not None:
        query = query.where(rounds.c.time_s <= time_s)
    row = connection.execute(query).first()
    return None if row is None else {"number": row.number, "time_s": row.time_s} | json.loads(row.data)


def options(connection: Connection, job_id: str, number: int, reach: int) -> tuple[int, dict[str, Any]] | None:
    """Return the newest options of a job that a round up to a number has kept, and that round's number.

    Args:
        reach: how many rounds back they are looked for.
    """
    escaped = job_id.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    query = (
        select(rounds)
        .where(rounds.c.number <= number, rounds.c.number > number - reach)
        .where(rounds.c.data.like(f'%"{escaped}":{{"options"%', escape="\\"))
        .order_by(rounds.c.number.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    return None if row is None else (row.number, json.loads(row.data)["options"][job_id])


def prices(connection: Connection, since_s: float) -> list[tuple[float, dict[str, float]]]:
    """Return the prices of GPU types in each round since a moment, oldest first."""
    query = select(rounds.c.time_s, rounds.c.data).where(rounds.c.time_s >= since_s).order_by(rounds.c.number)
    found = [(row.time_s, json.loads(row.data).get("prices")) for row in connection.execute(query)]
    return [(time_s, told) for time_s, told in found if told]
