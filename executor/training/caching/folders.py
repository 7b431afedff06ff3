"""Folders of caches in shared memory: one per job and node, gone when nobody uses it any more.

Who uses a folder holds a shared lock on a file in it, which the kernel drops when the process ends. Whoever opens
or leaves a cache, and each worker as it begins and ends, removes the folders that nobody uses.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
_USERS = "users"


def home(root: Path = SHARED_MEMORY) -> Path:
    """Return where this user's caches lie."""
    return root / f"coadapt-samples-{os.getuid()}"


def homes(root: Path = SHARED_MEMORY) -> list[Path]:
    """Return where caches of any user lie, as far as this one may look."""
    found, may = sorted(root.glob("coadapt-samples-*")), os.R_OK | os.W_OK | os.X_OK
    return [path for path in found if os.access(path, may)]


def folder_of(job: str, life: int, node: str, root: Path = SHARED_MEMORY) -> Path:
    """Return the folder of a job's life on a node; emulated nodes of one machine have one each."""
    return home(root) / f"{job}~{life}-{node}"


def use(folder: Path) -> int:
    """Make a folder if it is not there, and use it until this process ends; return the file that says so."""
    while True:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            file = os.open(folder / _USERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # it was just removed
        fcntl.flock(file, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if os.stat(folder / _USERS).st_ino == os.fstat(file).st_ino:
                return file
        os.close(file)


def remove_unused(where: Path) -> list[Path]:
    """Remove the folders that no process uses, and return them. Those of others that cannot be opened stay."""
    return [folder for folder in _folders(where) if _removed(folder)]


def _folders(where: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        yield from sorted(where.iterdir())


def _removed(folder: Path) -> bool:
    try:
        file = os.open(folder / _USERS, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # it is being made or removed
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        (folder / _USERS).unlink(missing_ok=True)  # first, so that a user who waits for it makes another one
        shutil.rmtree(folder, ignore_errors=True)
        return True
    finally:
        os.close(file)
