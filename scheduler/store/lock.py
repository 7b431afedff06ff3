"""Sees to it that one service at a time writes a store.

A lock is held as long as its process lives. In case one is lost unseen, each writer also has an epoch, which every
transaction checks.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import psutil
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from .failures import StoreError

WAIT_S, RETRY_S = 5.0, 0.1  # for a service that has just been killed
_KEY = 0x636F6164617074  # of PostgreSQL's advisory lock, one per database


class Lock(Protocol):
    """A lock that is held."""

    def release(self) -> None:
        """Give it back."""


def holder() -> dict[str, Any]:
    """Return who this is."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "since_s": psutil.Process().create_time()}


def _refused(where: str, by: Mapping[str, Any]) -> StoreError:
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(by.get("since_s", 0.0))))
    who = f"process {by.get('pid', '?')} on {by.get('host', '?')}, since {since}" if by else "another process"
    return StoreError(f"{where}: the store is held by {who}; one service at a time can write it")


class FileLock:
    """A lock on a file beside the store. The system gives it back when the process ends, however that is.

    Raises: StoreError, which names the holder, if another process has it.
    """

    def __init__(self, store: Path) -> None:
        path = store.with_name(f"{store.name}.lock")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline_s = time.monotonic() + WAIT_S
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() < deadline_s:
                    time.sleep(RETRY_S)  # another process, whose end nothing else tells
                    continue
                by = _told(os.pread(self._file, 4096, 0))
                os.close(self._file)
                raise _refused(str(store), by) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(holder()).encode(), 0)

    def release(self) -> None:
        """Give it back."""
        os.close(self._file)


def _told(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class ServerLock:
    """An advisory lock of a PostgreSQL database, held by a connection of its own.

    Raises: StoreError, which names the holder, if another service has it.
    """

    def __init__(self, engine: Engine, where: str) -> None:
        self._connection: Connection = engine.connect()
        deadline_s = time.monotonic() + WAIT_S
        while not self._connection.scalar(text("select pg_try_advisory_lock(:key)"), {"key": _KEY}):
            if time.monotonic() > deadline_s:
                by = self._holder()
                self._connection.close()
                raise _refused(where, by)
            time.sleep(RETRY_S)  # as above

    def _holder(self) -> Mapping[str, Any]:
        try:
            found = self._connection.scalar(text("select value from meta where key='writer'"))
        except SQLAlchemyError:  # there are no tables yet
            return {}
        return _told(str(found or "").encode())

    def release(self) -> None:
        """Give it back, and the connection to nobody else."""
        self._connection.invalidate()
        self._connection.close()
