"""A job's own folder on a machine: a copy of what was submitted, in which its script runs.

All replicas of a job on one machine share it, also those of several emulated nodes, and find it again after a
move. A profile run has its own folder, which is removed with it. Whoever works in a folder holds a lock; only a
folder that nobody holds is removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import tarfile
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Protocol, Self, cast

from ...core.home import default_home
from .own_folder import own_folder, pip_lock

Fetch = Callable[[int], bytes]  # a piece of the package from an offset on; empty at its end
_MEASURING = ".measuring-"
_OPEN_ALL = 0o700
UNPACKED_NS = 946_684_800 * 10**9  # when each file of a package was last changed: what a script writes is later
LOOK_S = 0.1


class FolderError(RuntimeError):
    """Say in one sentence why a job's folder cannot be made on this machine."""


def machine_name() -> str:
    """Return this machine's name as part of a path, since several machines may share a home."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", os.uname().nodename) or "machine"


def work_folder(state_dir: str) -> Path:
    """Return the folder of job folders on this machine, below the state directory if that is on this machine.

    Raises: FolderError if no folder can be written and locked.
    """
    homes = [Path(state_dir)] if state_dir and Path(state_dir).is_dir() else []
    homes += [Path(default_home()), Path(tempfile.gettempdir()) / f"coadapt-work-{os.getuid()}"]
    problems = []
    for home in homes:
        folder = home / "work" / machine_name()
        try:
            folder.mkdir(mode=_OPEN_ALL, parents=True, exist_ok=True)
            os.close(locked(folder / ".lock", fcntl.LOCK_SH))
            if folder.stat().st_uid == os.getuid():
                return folder
            problems.append(f"{folder}: belongs to another user")
        except OSError as error:
            problems.append(f"{folder}: {error.strerror}")
    raise FolderError(f"no folder for jobs can be made on {os.uname().nodename} ({'; '.join(problems)})")


def profile_key(key: str, worker: str) -> str:
    """Return the key of the folder of one profile run of the job `key`."""
    return f"{key}{_MEASURING}{worker}"


class JobFolder:
    """Hold a complete folder, which stays while this is open.

    The first that asks for it makes it from the package, which `fetch` gives piece by piece. It is a user's where
    `uid` names one. Raises: FolderError.
    """

    def __init__(self, work: Path, key: str, fetch: Fetch, uid: int | None = None) -> None:
        self.path = work / key
        self._work, self._uid = work, uid
        try:
            self._lock = locked(_lock_of(self.path), fcntl.LOCK_SH)
            try:
                self._make(fetch)
            except BaseException:
                os.close(self._lock)
                raise
        except OSError as error:
            raise FolderError(_said(self.path, error)) from error

    def close(self) -> None:
        os.close(self._lock)

    def remove(self) -> None:
        """End the use of a folder that nobody else wants, and remove it."""
        self.close()
        remove(self._work, self.path.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make(self, fetch: Fetch) -> None:
        if self.path.is_dir():
            return
        with alone(self._work / f".{self.path.name}.making"):
            if self.path.is_dir():
                return
            _remove_leftovers(self._work, self.path.name)
            beside = self._work / f".{self.path.name}.part"
            _remove_tree(beside)
            beside.mkdir(mode=_OPEN_ALL)
            unpack(_Pieces(fetch), beside)
            if self._uid is not None:
                _give_whole(beside, self._uid)
            beside.rename(self.path)


def remove(work: Path, key: str) -> bool:
    """Remove a job's folder and those that its profile runs left; return False while someone works in one."""
    removed = True
    for path in [work / key, *_measuring(work, key)]:
        lock = _try_lock(_lock_of(path))
        if lock is None:
            removed = False
            continue
        try:
            trash = work / f".{uuid.uuid4().hex}.trash"
            with suppress(FileNotFoundError):
                path.rename(trash)
            for left in (_lock_of(path), work / f".{path.name}.making"):
                left.unlink(missing_ok=True)
        finally:
            os.close(lock)
        _remove_tree(trash)
        _remove_tree(work / f".{path.name}.part")
    own = own_folder(work, key)
    if removed and not (own / "outputs").exists():  # those stay that could not be sent
        _remove_tree(own)
        pip_lock(own).unlink(missing_ok=True)
    return removed


def unpack(package: Readable, folder: Path) -> None:
    """Unpack a package, which may hold only folders and regular files inside of it. Raises: FolderError."""
    folders = []
    try:
        with tarfile.open(fileobj=cast(IO[bytes], package), mode="r|gz") as archive:
            for member in archive:
                name = PurePosixPath(member.name)
                if name.is_absolute() or ".." in name.parts or not (member.isdir() or member.isreg()):
                    raise FolderError(f"the job's package has {member.name!r}, which is not of its folder")
                path = folder / name
                if member.isdir():
                    path.mkdir(mode=_OPEN_ALL, parents=True, exist_ok=True)
                    folders.append((path, member.mode))
                    continue
                path.parent.mkdir(mode=_OPEN_ALL, parents=True, exist_ok=True)
                content = archive.extractfile(member)
                assert content is not None
                with content, path.open("wb") as file:
                    shutil.copyfileobj(content, file, 1 << 20)
                path.chmod(member.mode & 0o777)
                os.utime(path, ns=(UNPACKED_NS, UNPACKED_NS))
    except (tarfile.TarError, EOFError) as error:
        raise FolderError(f"the job's package cannot be read: {error}") from error
    for path, mode in reversed(folders):
        path.chmod(mode & 0o777 | _OPEN_ALL)


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Pieces:
    """Give `tarfile` a package that comes piece by piece."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._offset = 0
        self._rest = b""

    def read(self, size: int) -> bytes:
        while len(self._rest) < size:
            piece = self._fetch(self._offset)
            if not piece:
                break
            self._offset += len(piece)
            self._rest += piece
        read, self._rest = self._rest[:size], self._rest[size:]
        return read


# --- locks ------------------------------------------------------------------------------------------------------


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def locked(path: Path, how: int) -> int:
    """Return a descriptor that holds the lock; a lock file that was removed meanwhile does not count."""
    while True:
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, how)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), path.stat()):
                    return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


@contextmanager
def alone(path: Path, patience_s: float | None = None) -> Iterator[None]:
    """Hold the lock file alone. Raises: TimeoutError if others hold it longer than `patience_s`."""
    until_s = None if patience_s is None else time.monotonic() + patience_s
    lock = locked(path, fcntl.LOCK_EX) if until_s is None else _try_lock(path)
    while lock is None:
        if until_s is not None and time.monotonic() > until_s:
            raise TimeoutError(f"{path} is in use")
        time.sleep(LOOK_S)
        lock = _try_lock(path)
    try:
        yield
    finally:
        os.close(lock)


def _try_lock(path: Path) -> int | None:
    try:
        return locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


# --- what is left over ------------------------------------------------------------------------------------------


def _measuring(work: Path, key: str) -> Iterator[Path]:
    return work.glob(f"{key}{_MEASURING}*")


def _remove_leftovers(work: Path, key: str) -> None:
    """Remove folders of profile runs of the same job whose workers were killed."""
    job = key.partition(_MEASURING)[0]
    for path in _measuring(work, job):
        remove(work, path.name)


def _give_whole(folder: Path, uid: int) -> None:
    """Make a folder with all that is in it a user's; nobody else has reached it yet."""
    for root, _, files in os.walk(folder):
        for path in (root, *(os.path.join(root, name) for name in files)):
            os.chown(path, uid, uid, follow_symlinks=False)


def _remove_tree(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # the script has made a folder of it read-only
        for root, folders, _ in os.walk(folder):
            for name in folders:
                with suppress(OSError):
                    os.chmod(os.path.join(root, name), _OPEN_ALL, follow_symlinks=False)
        shutil.rmtree(folder, ignore_errors=True)


def _said(path: Path, error: OSError) -> str:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "the disk is full" if full else error.strerror or str(error)
    return f"{path} on {os.uname().nodename} cannot be made: {why}"
