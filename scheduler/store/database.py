"""The connections to a store: one that writes, and others that read meanwhile.

All writes of one decision are made in one short transaction. It first checks that the store is still ours.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, NullPool, create_engine, event, make_url, select
from sqlalchemy.exc import SQLAlchemyError

from .failures import LostStore, StoreError, StoreFailure, in_words
from .schema import meta

BUSY_S = 2.0  # a write waits so long for other programs that hold the file
READERS = 4
# By dialect: how a transaction begins that only reads, all of it as of one moment.
SNAPSHOTS = {"sqlite": "begin", "postgresql": "begin isolation level repeatable read read only"}
Write = Callable[[Connection], None]


class Database:
    """A SQLite file or a PostgreSQL database.

    Args:
        url: of SQLAlchemy, as `sqlite:////var/lib/coadapt/jobs.sqlite` or `postgresql+psycopg://…`.
        epoch: which the writer of the store has; None: it is not checked.

    Raises: StoreError if it cannot be opened.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.epoch: int | None = None
        self._closed = False
        self.last_write_s = 0.0  # how long the last transaction took
        self._lock = threading.RLock()
        self._engine = make_engine(url)
        try:
            self._writer = self._engine.connect()
        except SQLAlchemyError as error:
            raise StoreError(f"{shown(url)}: the store cannot be opened: {in_words(error)}") from None

    @property
    def engine(self) -> Engine:
        """Return the engine, for migrations and backups."""
        return self._engine

    @property
    def is_sqlite(self) -> bool:
        """Return whether it is one file."""
        return self._engine.dialect.name == "sqlite"

    def write(self, write: Write) -> None:
        """Run one transaction: all that `write` does is kept, or nothing.

        Raises: StoreFailure; LostStore if another service has the store now.
        """
        began_s = time.perf_counter()
        with self._lock:
            try:
                with self._begun() as connection:
                    self._check_epoch(connection)
                    write(connection)
            except SQLAlchemyError as error:
                raise StoreFailure(f"the store cannot be written: {in_words(error)}") from error
            finally:
                self.last_write_s = time.perf_counter() - began_s

    @contextmanager
    def _begun(self) -> Iterator[Connection]:
        """Yield the writing connection within a transaction. A broken connection is made anew."""
        if self._closed:
            raise StoreFailure("the store is closed")
        if self._writer.closed or self._writer.invalidated:
            self._writer.close()
            self._writer = self._engine.connect()
        connection = self._writer
        connection.exec_driver_sql("begin immediate" if self.is_sqlite else "begin")
        try:
            yield connection
            connection.exec_driver_sql("commit")
        except BaseException:
            self._roll_back(connection)
            raise

    def _roll_back(self, connection: Connection) -> None:
        """End the transaction; SQLite may have ended it by itself, as on a full disk."""
        try:
            connection.exec_driver_sql("rollback")
        except SQLAlchemyError as error:
            if "no transaction is active" not in in_words(error):
                connection.invalidate()

    def _check_epoch(self, connection: Connection) -> None:
        if self.epoch is None:
            return
        found = connection.scalar(select(meta.c.value).where(meta.c.key == "epoch"))
        if found != str(self.epoch):
            raise LostStore("another service has taken the store over; this one writes no more")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that reads what is committed by one moment, while another thread may write.

        Raises: StoreFailure.
        """
        if self._closed:
            raise StoreFailure("the store is closed")
        try:
            with self._engine.connect() as connection:
                connection.exec_driver_sql(SNAPSHOTS[self._engine.dialect.name])
                try:
                    yield connection
                finally:
                    self._roll_back(connection)
        except SQLAlchemyError as error:
            raise StoreFailure(f"the store cannot be read: {in_words(error)}") from error

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._closed = True
            self._writer.close()
            self._engine.dispose()


def make_engine(url: str) -> Engine:
    """Return an engine whose connections leave transactions to us. Raises: StoreError for a URL that is none."""
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            engine = create_engine(
                parsed,
                isolation_level="AUTOCOMMIT",
                pool_size=READERS,
                connect_args={"check_same_thread": False, "timeout": BUSY_S},
            )
            event.listen(engine, "connect", _set_up_sqlite)
            return engine
        return create_engine(parsed, isolation_level="AUTOCOMMIT", pool_size=READERS, pool_pre_ping=True)
    except (SQLAlchemyError, ImportError) as error:
        raise StoreError(f"store: {shown(url)} cannot be used: {error}") from None


def reading_engine(url: str) -> Engine:
    """Return an engine that changes nothing of a store, not even of a damaged file. Raises: as `make_engine`."""
    if not url.startswith("sqlite"):
        return make_engine(url)
    path = quote(str(Path(shown(url)).absolute()))
    return create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False),
        isolation_level="AUTOCOMMIT",
        poolclass=NullPool,
    )


def _set_up_sqlite(connection: Any, record: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=wal", "synchronous=full", "foreign_keys=on", "journal_size_limit=67108864"):
        cursor.execute(f"pragma {pragma}")
    cursor.close()


def sqlite_url(path: Path | str) -> str:
    """Return the URL of a file."""
    return f"sqlite:///{Path(path).absolute()}"


def shown(url: str) -> str:
    """Return a URL as people may see it: without its password, and of a file its path."""
    try:
        parsed = make_url(url)
    except SQLAlchemyError:
        return url
    if parsed.get_backend_name() == "sqlite":
        return parsed.database or url
    return parsed.render_as_string(hide_password=True)
