"""Copies a whole store into one SQLite file, checks the copy, and brings one back.

The copy of a PostgreSQL database is a SQLite file, too. So a backup also moves a store from one to the other.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, MetaData, Table, func, insert, select

from .database import Database, make_engine, shown, sqlite_url
from .failures import StoreError

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
            _copy_file(Path(shown(database.url)), partial)
        else:
            copy(database.url, sqlite_url(partial))
        if found := check(partial):
            raise StoreError(f"{path}: the backup is damaged: {found[0]}")
        with open(partial, "rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except (OSError, sqlite3.Error) as error:
        partial.unlink(missing_ok=True)
        raise StoreError(f"{path}: the backup cannot be written: {error}") from error
    return path


def _copy_file(source: Path, target: Path) -> None:
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


def copy(source: str, target: str) -> dict[str, int]:
    """Copy all tables of a store into another database, which must be empty. Return the rows of each table.

    All that was committed by one moment is copied. Raises: StoreError.
    """
    reading, writing = make_engine(source), make_engine(target)
    try:
        with reading.connect() as read, writing.connect() as write:
            found = MetaData()
            found.reflect(read)
            existing = MetaData()
            existing.reflect(write)
            if existing.tables:
                raise StoreError(f"{shown(target)}: it has tables already; give an empty database")
            snapshot = "begin" if reading.dialect.name == "sqlite" else "begin isolation level repeatable read"
            read.exec_driver_sql(snapshot)
            write.exec_driver_sql("begin")
            found.create_all(write)
            for table in found.sorted_tables:
                for rows in _rows(read, table):
                    write.execute(insert(table), rows)
            counts = {table.name: _count(read, table) for table in found.sorted_tables}
            for table in found.sorted_tables:
                if _count(write, table) != counts[table.name]:
                    raise StoreError(f"{shown(target)}: table {table.name} was not copied whole")
            write.exec_driver_sql("commit")
            read.exec_driver_sql("rollback")
            return counts
    finally:
        reading.dispose()
        writing.dispose()


def _rows(connection: Connection, table: Table) -> Iterator[list[dict[str, object]]]:
    result = connection.execution_options(stream_results=True).execute(select(table))
    for part in result.mappings().partitions(_ROWS):
        yield [dict(row) for row in part]


def _count(connection: Connection, table: Table) -> int:
    return connection.scalar(select(func.count()).select_from(table)) or 0
