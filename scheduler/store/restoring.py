"""Brings a backup back as the store. The one that was there is kept beside it, and no number is given twice."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import inspect
from sqlalchemy.exc import SQLAlchemyError

from . import backup, migrating, numbers, opening
from .database import Database, reading_engine, shown, sqlite_url
from .failures import StoreError, in_words
from .lock import FileLock, ServerLock
from .numbers import Numbers

BESIDE = ("-wal", "-shm")  # files of SQLite that belong to one


@dataclass(frozen=True)
class Restored:
    """What was done. `kept`: where the store that was there is now; "": there was none."""

    store: str
    jobs: int
    kept: str


def restore(source: Path, where: Path | str, backups: Path, folders: Iterable[Path]) -> Restored:
    """Make a backup the store.

    Args:
        where: the path or URL of the store, which no service may hold.
        backups: the folder in which the store of a server that is there is kept.
        folders: those with a folder for each job, by which the highest number of a job is known, too.

    Raises: StoreError, in one sentence. What is there is unchanged then.
    """
    jobs, least = checked(source), numbers.in_folders(folders)
    url = opening.url_of(where)
    if url.startswith("sqlite"):
        return _as_file(source, Path(shown(url)), jobs, least)
    return _into_server(source, url, backups, jobs, least)


def checked(source: Path) -> int:
    """Return how many jobs a backup has. Raises: StoreError for a file that is none, or that is hurt."""
    if not source.is_file():
        raise StoreError(f"{source}: there is no such file; give a backup, as `coadapt backup` writes it")
    if found := backup.check(source):
        raise StoreError(f"{source}: the backup is damaged: {found[0]}")
    engine = reading_engine(sqlite_url(source))
    try:
        with engine.connect() as connection:
            version = opening.version_of(connection)
            if version is None or not migrating.knows(version):
                raise StoreError(
                    f"{source}: it is no store that this program can read (version {version}); "
                    f"it knows {', '.join(migrating.versions())}"
                )
            return int(connection.exec_driver_sql("select count(*) from jobs").scalar() or 0)
    except SQLAlchemyError as error:
        raise StoreError(f"{source}: it is no backup of a store: {in_words(error)}") from None
    finally:
        engine.dispose()


def _numbers_in(url: str) -> Numbers:
    """Return the highest numbers of a store, as far as it can be read."""
    engine = reading_engine(url)
    try:
        with engine.connect() as connection:
            return numbers.given(connection)
    except (SQLAlchemyError, ValueError):
        return Numbers()
    finally:
        engine.dispose()


def _facts(source: Path, present: str, least: Numbers) -> Mapping[str, str]:
    highest = least | _numbers_in(sqlite_url(source)) | _numbers_in(present)
    return {numbers.FACT: highest.to_json(), "epoch": str(highest.epoch)}


# --- SQLite -------------------------------------------------------------------------------------------------


def _as_file(source: Path, path: Path, jobs: int, least: Numbers) -> Restored:
    opening.check_local(path)
    if path.exists() and source.resolve() == path.resolve():
        raise StoreError(f"{source}: it is the store itself; give a backup of it")
    partial = path.with_name(f"{path.name}.restoring")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
    except OSError as error:
        raise StoreError(f"{path}: the store cannot be written: {error.strerror}") from None
    try:
        _copy(source, partial, _facts(source, sqlite_url(path), least))
        kept = _keep(path)
        os.replace(partial, path)
        _sync(path.parent)
        if found := backup.check(path):
            raise StoreError(f"{path}: what was restored is damaged: {found[0]}; the store before is {kept}")
        return Restored(str(path), jobs, kept)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{path}: the backup cannot be restored: {error}") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        lock.release()


def _copy(source: Path, partial: Path, facts: Mapping[str, str]) -> None:
    """Copy a backup with facts of its own, and check the copy."""
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    backup.copy_file(source, partial)
    with closing(sqlite3.connect(partial)) as database, database:
        database.executemany("insert or replace into meta(key, value) values(?, ?)", list(facts.items()))
    if found := backup.check(partial):
        raise StoreError(f"{partial}: the copy of the backup is damaged: {found[0]}")
    with open(partial, "rb") as file:
        os.fsync(file.fileno())


def _keep(path: Path) -> str:
    """Give the store that is there a second name, and return it. What stands in its log goes with it."""
    if not path.exists() or not path.stat().st_size:
        return ""
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as database:
        database.execute("pragma wal_checkpoint(truncate)")  # a damaged store may refuse
    kept = path.with_name(f"{path.stem}-before-restore-{time.strftime('%Y%m%d-%H%M%S')}{path.suffix}")
    for ending in ("", *BESIDE):
        one, other = path.with_name(path.name + ending), kept.with_name(kept.name + ending)
        if one.exists():
            try:
                os.link(one, other)
            except OSError:  # a file system without links
                shutil.copy2(one, other)
    # A log of the store that was there must not be replayed onto the one that comes.
    for ending in BESIDE:
        path.with_name(path.name + ending).unlink(missing_ok=True)
    return str(kept)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- a server -----------------------------------------------------------------------------------------------


def _into_server(source: Path, url: str, backups: Path, jobs: int, least: Numbers) -> Restored:
    database = Database(url)
    try:
        lock = ServerLock(database.engine, shown(url))
        try:
            with database.reading() as connection:
                there = bool(inspect(connection).get_table_names())
            kept = ""
            if there:
                name = f"before-restore-{time.strftime('%Y%m%d-%H%M%S')}.sqlite"
                kept = str(backup.write(database, backups / name))
            backup.copy(sqlite_url(source), url, replace=True, facts=_facts(source, url, least))
            return Restored(shown(url), jobs, kept)
        except SQLAlchemyError as error:
            raise StoreError(f"{shown(url)}: the backup cannot be restored: {in_words(error)}") from None
        finally:
            lock.release()
    finally:
        database.close()
