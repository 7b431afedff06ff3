"""Folders and files of a job that has a user id of its own, seen from a worker that runs as root."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

PRIVATE = 0o700
PASSABLE = 0o711  # others may pass through, but see nothing of what is there
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_SETGROUPS = {"x86_64": 116, "aarch64": 159}


class OwnershipError(OSError):
    """This process may not act for another user; one sentence."""


@contextmanager
def acting_as(uid: int | None) -> Iterator[None]:
    """Let this thread reach only the files that a user reaches. Links that the user made lead it nowhere else.

    None: nothing changes. Raises: OwnershipError.
    """
    if uid is None or uid == os.geteuid():
        yield
        return
    system, groups = _system(), os.getgroups()
    system.setfsgid(uid)
    system.setfsuid(uid)
    try:
        if system.setfsuid(-1) != uid:
            raise OwnershipError(f"files of user {uid} cannot be reached; the cluster has to run as root")
        _set_groups([])
        yield
    finally:
        system.setfsuid(os.geteuid())
        system.setfsgid(os.getegid())
        _set_groups(groups)


def become(uid: int) -> None:
    """Make this process one of a user, for good; what it runs gains no rights."""
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    system = _system()
    system.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    system.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else it could not read its own /proc


def give(path: Path, uid: int | None) -> None:
    """Make a folder a user's, where it is not yet."""
    if uid is not None and path.lstat().st_uid != uid:
        os.chown(path, uid, uid, follow_symlinks=False)


def make_private(path: Path, uid: int | None = None) -> None:
    """Make a folder that only its user enters, where there is none; the folders above are closed as well."""
    if not path.is_dir():
        path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        path.mkdir(mode=PRIVATE, exist_ok=True)
    give(path, uid)


def let_pass(path: Path) -> None:
    """Let other users pass through a folder of ours to those inside that are theirs."""
    status = path.stat()
    if status.st_uid == os.geteuid() and status.st_mode & PASSABLE != PASSABLE:
        path.chmod(status.st_mode & 0o777 | PASSABLE)


def closed_to(path: Path) -> Path | None:
    """Return the first folder above a path through which other users cannot pass."""
    for folder in reversed([path, *path.parents]):
        if folder.is_dir() and not folder.stat().st_mode & 0o001:
            return folder
    return None


@cache
def _system() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _set_groups(groups: list[int]) -> None:
    """Set the groups of this thread alone; Python and the C library would set those of all threads."""
    number = _SETGROUPS.get(os.uname().machine)
    if number is not None:
        _system().syscall(number, len(groups), (ctypes.c_uint32 * max(len(groups), 1))(*groups))
