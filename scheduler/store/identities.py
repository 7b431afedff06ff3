"""Users and tokens in the store. Of a token only its digest is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, delete, select, update

from .database import Database
from .schema import tokens, users
from .tables import upsert


def read_users(database: Database) -> list[dict[str, Any]]:
    """Return all users by name."""
    with database.reading() as connection:
        return [dict(row) for row in connection.execute(select(users).order_by(users.c.name)).mappings()]


def read_user(database: Database, name: str) -> dict[str, Any] | None:
    """Return a user, or None."""
    with database.reading() as connection:
        row = connection.execute(select(users).where(users.c.name == name)).mappings().first()
        return None if row is None else dict(row)


def write_user(name: str, role: str, disabled: bool, now: float) -> Callable[[Connection], None]:
    """Return a write that makes or changes a user."""
    row = {"name": name, "role": role, "disabled": disabled, "created_s": now}
    return lambda connection: upsert(connection, users, ("name",), [row])


def read_token(database: Database, token_id: str) -> dict[str, Any] | None:
    """Return a token's row, or None."""
    with database.reading() as connection:
        row = connection.execute(select(tokens).where(tokens.c.id == token_id)).mappings().first()
        return None if row is None else dict(row)


def read_tokens(database: Database, user: str | None) -> list[dict[str, Any]]:
    """Return tokens without their digests, of one user or of all, oldest first."""
    shown = [column for column in tokens.c if column.name != "digest"]
    query = select(*shown).order_by(tokens.c.created_s, tokens.c.id)
    with database.reading() as connection:
        found = connection.execute(query if user is None else query.where(tokens.c.user == user))
        return [dict(row) for row in found.mappings()]


def write_token(row: dict[str, Any], gone: Sequence[str] = ()) -> Callable[[Connection], None]:
    """Return a write that keeps a new token. `gone`: ids of those that give way to it."""

    def write(connection: Connection) -> None:
        if gone:
            connection.execute(delete(tokens).where(tokens.c.id.in_(gone)))
        upsert(connection, tokens, ("id",), [row])

    return write


def change_token(token_id: str, **changed: Any) -> Callable[[Connection], None]:
    """Return a write that changes a token."""

    def change(connection: Connection) -> None:
        connection.execute(update(tokens).where(tokens.c.id == token_id).values(changed))

    return change
