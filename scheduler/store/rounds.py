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
