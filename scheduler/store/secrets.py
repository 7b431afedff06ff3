"""The secrets of users in the store, each sealed with a key that is not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, delete, select, update

from .database import Database
from .schema import secrets
from .tables import upsert


def read(database: Database, user: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of a user's secrets by name; None: of all users."""
    query = select(secrets).order_by(secrets.c.user, secrets.c.name)
    with database.reading() as connection:
        found = connection.execute(query if user is None else query.where(secrets.c.user == user))
        return [dict(row) for row in found.mappings()]


def put(row: dict[str, Any]) -> Callable[[Connection], None]:
    """Return a write that makes or changes a secret."""
    return lambda connection: upsert(connection, secrets, ("user", "name"), [row])


def remove(user: str, name: str) -> Callable[[Connection], None]:
    """Return a write that removes a secret."""

    def write(connection: Connection) -> None:
        connection.execute(delete(secrets).where(secrets.c.user == user, secrets.c.name == name))

    return write


def forget(user: str) -> Callable[[Connection], None]:
    """Return a write that removes all secrets of a user."""

    def write(connection: Connection) -> None:
        connection.execute(delete(secrets).where(secrets.c.user == user))

    return write


def seal_anew(rows: Sequence[dict[str, Any]]) -> Callable[[Connection], None]:
    """Return a write that changes with which key secrets are sealed."""

    def write(connection: Connection) -> None:
        for row in rows:
            same = (secrets.c.user == row["user"]) & (secrets.c.name == row["name"])
            connection.execute(update(secrets).where(same).values(key=row["key"], sealed=row["sealed"]))

    return write
