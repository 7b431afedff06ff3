"""Copies a whole store into one SQLite file, checks the copy, and brings one back.

The copy of a PostgreSQL database is a SQLite file, too. So a backup also moves a store from one to the other.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Connection, MetaData, Table, delete, func, insert, inspect, select

from . import migrating
from .database import SNAPSHOTS, Database, make_engine, reading_engine, shown, sqlite_url
from .failures import StoreError
from .schema import meta
from .tables import upsert

_ROWS = 500  # that are copied at a time


def write(database: Database, path: Path) -> Path:
    """Write a backup of a store that may be in use, and return its path.

    Raises: StoreError, in one sentence, if it cannot be written or is not what the store is.
    """
    partial = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        if database.is_sqlite:
            copy_file(Path(shown(database.url)), partial)
        else:
            copy(database.url, sqlite_url(partial))
        if found := check(partial):
            raise StoreError(f"{path}: the backup is damaged: {found[0]}")
        with open(partial, "rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise StoreError(f"{path}: the backup cannot be written: {error}") from error
    return path


def copy_file(source: Path, target: Path) -> None:
    """Copy a SQLite store with what stands in its log of writes, while others use it."""
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as store,
        closing(sqlite3.connect(target)) as copied,
    ):
        store.backup(copied, pages=4096)
        copied.execute("pragma journal_mode=delete")


def check(path: Path) -> list[str]:
    """Return what is wrong with the pages of a SQLite file, a sentence each; nothing: it is whole."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            found = [str(row[0]) for row in database.execute("pragma integrity_check(20)")]
            found = [] if found == ["ok"] else found
            return found + [
                f"{row[0]}: a row of a job that is not there"
                for row in database.execute("pragma foreign_key_check")
            ]
    except sqlite3.Error as error:
        return [str(error)]


def copy(
    source: str, target: str, *, replace: bool = False, facts: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Copy all rows of a store into another database, in one transaction. Return the rows of each table.

    All that was committed by one moment is copied. Raises: StoreError.

    Args:
        replace: whether to drop the tables of a store that is there; else the database must be empty.
        facts: rows of `meta` to write with them.
    """
    reading, writing = reading_engine(source), make_engine(target)
    try:
        with reading.connect() as read, writing.connect() as write:
            if inspect(write).get_table_names() and not replace:
                raise StoreError(f"{shown(target)}: it has tables already; give an empty database")
            read.exec_driver_sql(SNAPSHOTS[reading.dialect.name])
            write.exec_driver_sql("begin")
            _drop(write)
            version = read.exec_driver_sql("select version_num from alembic_version").scalar()
            migrating.migrate(write, None, str(version))
            counts = {table.name: _copied(read, write, table) for table in _tables(read)}
            upsert(write, meta, ("key",), [{"key": key, "value": value} for key, value in (facts or {}).items()])
            write.exec_driver_sql("commit")
            read.exec_driver_sql("rollback")
            return counts
    finally:
        reading.dispose()
        writing.dispose()


def _drop(connection: Connection) -> None:
    found = MetaData()
    found.reflect(connection)
    found.drop_all(connection)


def _tables(connection: Connection) -> list[Table]:
    found = MetaData()
    found.reflect(connection)
    return [table for table in found.sorted_tables if table.name != "alembic_version"]


def _copied(read: Connection, write: Connection, table: Table) -> int:
    """Copy the rows of a table, and return how many there are. Raises: StoreError if some are missing."""
    write.execute(delete(table))
    result = read.execute(select(table), execution_options={"stream_results": True})
    for part in result.mappings().partitions(_ROWS):
        write.execute(insert(table), [dict(row) for row in part])
    counted = select(func.count()).select_from(table)
    rows, copied = read.scalar(counted) or 0, write.scalar(counted) or 0
    if rows != copied:
        raise StoreError(f"table {table.name}: {copied} of {rows} rows were copied")
    return rows
