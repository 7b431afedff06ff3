"""Opens a store for its one writer: made if it is new, migrated if it is older, refused if it is later or held."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from sqlalchemy import Connection, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from . import backup, migrating
from .database import Database, shown, sqlite_url
from .failures import StoreError, in_words
from .lock import FileLock, Lock, ServerLock, holder
from .schema import meta, metadata
from .tables import upsert

VERSION = "0007"  # of the tables in `schema`; the newest file in `migrations/versions` is of the same
NETWORK = ("nfs", "cifs", "smb", "9p", "fuse", "glusterfs", "ceph", "lustre", "afs", "beegfs", "gpfs")
LOCAL_FUSE = ("fuse-overlayfs", "fuse.fuse-overlayfs", "fuseblk")


@dataclass(frozen=True)
class Opened:
    """A store that this process may write."""

    database: Database
    lock: Lock

    def close(self) -> None:
        """Close it and give the lock back."""
        self.database.close()
        self.lock.release()


def url_of(where: Path | str) -> str:
    """Return the URL of a store that is given by a path or a URL."""
    return where if isinstance(where, str) and "://" in where else sqlite_url(where)


def open_store(where: Path | str, backups: Path | None = None) -> Opened:
    """Open a store for writing.

    Args:
        backups: the folder of backups before migrations; by default the one beside a SQLite file.

    Raises: StoreError, in one sentence, where that cannot be.
    """
    url = url_of(where)
    path = None if "://" not in url or not url.startswith("sqlite") else Path(shown(url))
    if path is not None:
        _prepare(path)
    database = Database(url)
    try:
        lock: Lock = FileLock(path) if path is not None else ServerLock(database.engine, shown(url))
    except BaseException:
        database.close()
        raise
    opened = Opened(database, lock)
    try:
        bring_to_version(database, backups_of(path, backups))
        _begin_epoch(database)
    except SQLAlchemyError as error:
        opened.close()
        raise StoreError(
            f"{shown(url)}: not a job store, or a damaged one ({in_words(error)}); "
            "`coadapt doctor` names what is hurt, `coadapt restore` brings a backup back"
        ) from error
    except BaseException:
        opened.close()
        raise
    return opened


def backups_of(path: Path | None, backups: Path | None = None) -> Path | None:
    """Return the folder of a store's backups; None for a database of a server where none is given."""
    return backups or (None if path is None else path.parent / "backups")


def _prepare(path: Path) -> None:
    """Make the folder, and let nobody else read the file. Raises: StoreError on a network file system."""
    check_local(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600, exist_ok=True)
        os.chmod(path, 0o600)
    except OSError as error:
        raise StoreError(f"{path}: the store cannot be written: {error.strerror}") from None


def check_local(path: Path) -> None:
    """Raise StoreError for a path on a network file system."""
    if (kind := network_file_system(path)) is not None:
        raise StoreError(
            f"{path}: the store is on a network file system ({kind}), where SQLite loses data; "
            "give a folder on a local disk, or a PostgreSQL URL as `store_url`"
        )


def network_file_system(path: Path) -> str | None:
    """Return the kind of the network file system that a path is on; None: it is on none."""
    real = path.resolve()
    mounts = [one for one in psutil.disk_partitions(all=True) if real.is_relative_to(one.mountpoint)]
    if not mounts:
        return None
    kind = max(mounts, key=lambda one: len(one.mountpoint)).fstype.lower()
    return kind if kind.startswith(NETWORK) and kind not in LOCAL_FUSE else None


def version_of(connection: Connection) -> str | None:
    """Return the version of a store's tables; None: there are none.

    Raises: StoreError for tables that are not ours.
    """
    names = set(inspect(connection).get_table_names())
    if "alembic_version" in names:
        return str(connection.exec_driver_sql("select version_num from alembic_version").scalar())
    if not names:
        return None
    earlier = connection.execute(select(meta.c.value).where(meta.c.key == "version")).scalar()
    if earlier != "1":
        raise StoreError(f"store version {earlier} is not known to this program, which writes version {VERSION}")
    return "0001"


def bring_to_version(database: Database, backups: Path | None, wanted: str = VERSION) -> None:
    """Make tables, or migrate those that are there; a verified backup is written before.

    Args:
        backups: the folder for it; None: none is written.

    Raises: StoreError for a later version, or where the backup cannot be written.
    """
    with database.reading() as connection:
        found = version_of(connection)
    if found == wanted:
        return
    if found is None:
        database.write(_create)
        return
    if not migrating.knows(wanted):
        raise StoreError(f"--to: {wanted} is no version of the store; there are {', '.join(migrating.versions())}")
    if not migrating.knows(found):
        raise StoreError(
            f"{shown(database.url)}: store version {found}, and this program writes version {VERSION}; "
            "use the program that wrote it, or `coadapt restore` an earlier backup"
        )
    if backups is not None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        backup.write(database, backups / f"before-{wanted}-from-{found}-{stamp}.sqlite")
    database.write(lambda connection: migrating.migrate(connection, found, wanted))


def _create(connection: Connection) -> None:
    metadata.create_all(connection)
    migrating.stamp(connection, VERSION)


def _begin_epoch(database: Database) -> None:
    """Become the writer: whoever was it before can write no more."""
    found: list[int] = []

    def begin(connection: Connection) -> None:
        before = connection.scalar(select(meta.c.value).where(meta.c.key == "epoch"))
        found.append(int(before or 0) + 1)
        rows = [{"key": "epoch", "value": str(found[-1])}, {"key": "writer", "value": json.dumps(holder())}]
        upsert(connection, meta, ("key",), rows)

    database.write(begin)
    database.epoch = found[-1]
