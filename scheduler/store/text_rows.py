"""A table of the store that holds one text for each name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from sqlalchemy import Connection, Table, delete, select

from .database import Database
from .tables import upsert


class Writer(Protocol):
    """The store, as far as it is needed here."""

    @property
    def database(self) -> Database:
        """Return the connections."""

    def write(self, change: Callable[[Connection], None]) -> None:
        """Have something written in the transaction under way, or in one of its own."""


class TextRows:
    """The rows of one table with the columns `name` and `text`."""

    def __init__(self, store: Writer, table: Table) -> None:
        self._store, self._table = store, table

    def read(self) -> Mapping[str, str]:
        """Return all texts by name."""
        with self._store.database.reading() as connection:
            rows = connection.execute(select(self._table).order_by(self._table.c.name))
            return {row.name: row.text for row in rows}

    def write(self, texts: Mapping[str, str], gone: Iterable[str] = ()) -> None:
        """Write some texts and remove the rows of others, in one transaction."""
        rows = [{"name": name, "text": text} for name, text in texts.items()]
        names = list(gone)

        def change(connection: Connection) -> None:
            upsert(connection, self._table, ("name",), rows)
            if names:
                connection.execute(delete(self._table).where(self._table.c.name.in_(names)))

        self._store.write(change)


def void(value: object) -> None:
    """Return nothing, of a statement whose answer nobody needs."""
