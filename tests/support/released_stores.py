"""Stores of every released version, as programs of that version have left them, and what is in a store."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from coadapt.scheduler.store import migrating, opening
from coadapt.scheduler.store.database import Database
from sqlalchemy import MetaData, create_engine, insert, select

STORES = Path(__file__).parents[1] / "data" / "stores"
RELEASED = sorted(path.stem for path in STORES.glob("*.sql"))


def put(version: str, where: Path | str, folder: Path) -> None:
    """Make a store as a program of a version has left it."""
    script = (STORES / f"{version}.sql").read_text()
    if isinstance(where, Path):
        fill(where, script)
        return
    fill(folder / "source.sqlite", script)
    database = Database(where)
    database.write(lambda connection: migrating.migrate(connection, None, version))
    source, found = create_engine(f"sqlite:///{folder / 'source.sqlite'}"), MetaData()
    with source.connect() as connection:
        found.reflect(connection)
        rows = {
            table: [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in found.sorted_tables
            if table.name != "alembic_version"
        }
    source.dispose()

    def copy(connection: Any) -> None:
        connection.exec_driver_sql("delete from meta")
        for table, of in rows.items():
            if of:
                connection.execute(insert(table), of)

    database.write(copy)
    database.close()


def fill(path: Path, script: str) -> None:
    with sqlite3.connect(path) as database:
        database.executescript(script)
    database.close()


def contents(where: Path | str) -> dict[str, list[Any]]:
    """Return all rows by table; JSON texts as what they say."""
    url, found = opening.url_of(where), MetaData()
    engine = create_engine(url)
    with engine.connect() as connection:
        found.reflect(connection)
        tables = [table for table in found.sorted_tables if table.name not in ("alembic_version", "meta")]
        rows = {
            table.name: [tuple(map(said, row)) for row in connection.execute(select(table))] for table in tables
        }
    engine.dispose()
    return {name: sorted(of, key=repr) for name, of in rows.items()}


def said(value: object) -> object:
    if not isinstance(value, str) or value[:1] not in "{[":
        return value
    try:
        return told(json.loads(value))
    except ValueError:
        return value


def told(document: object) -> object:
    """Return a document without what says the same when it is left out."""
    if isinstance(document, dict):
        kept = {name: told(value) for name, value in sorted(document.items())}
        return {name: value for name, value in kept.items() if value not in (None, {}, [])}
    return [told(one) for one in document] if isinstance(document, list) else document


def migrate(where: Path | str, wanted: str, backups: Path) -> None:
    database = Database(opening.url_of(where))
    opening.bring_to_version(database, backups, wanted)
    database.close()
