"""What lies in a job's output folder: any number of files with any names, read in order and in bounded memory.

A link inside the folder stays a link. One that leads out of it is nobody's output: it is named, never followed.
"""

from __future__ import annotations

import heapq
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from .errors import OutputError

MAX_DEPTH = 100
PART_BYTES = 8 << 20  # of a file, sent at once
Name = tuple[str, ...]  # a path below the folder, part by part: its order is the order of a walk
_VANISHED = (FileNotFoundError, NotADirectoryError)


class Kind(StrEnum):
    FILE = "file"
    LINK = "link"  # to something inside
    FOLDER = "folder"  # an empty one; others are told by what is in them
    OUTSIDE = "outside"  # a link out of the folder
    SPECIAL = "special"  # a socket and the like, or what lies too deep
    GONE = "gone"  # it was there a moment ago
    OLDER = "older"  # another machine has sent it since

    @property
    def is_kept(self) -> bool:
        return self in (Kind.FILE, Kind.LINK, Kind.FOLDER)


@dataclass(frozen=True)
class Entry:
    kind: Kind
    size: int = 0
    mtime_ns: int = 0
    mode: int = 0
    target: str = ""  # of a link, from its own folder


class LeftOut:
    """Names that are no outputs, by why: how many and the first few."""

    _WHY: ClassVar = {
        Kind.OUTSIDE: "links that lead out of the folder",
        Kind.SPECIAL: "neither files nor folders, or too deep",
        Kind.GONE: "gone since they were listed",
        Kind.OLDER: "older than what another machine has sent since",
    }

    def __init__(self) -> None:
        self._counts: Counter[Kind] = Counter()
        self._names: dict[Kind, list[str]] = {}

    def add(self, name: Name, kind: Kind) -> None:
        self._counts[kind] += 1
        if self._counts[kind] <= 3:
            self._names.setdefault(kind, []).append(shown("/".join(name)))

    def sentences(self) -> list[str]:
        return [
            f"{', '.join(self._names[kind])}{f' and {count - 3} more' if count > 3 else ''} "
            f"left out of the outputs: {self._WHY[kind]}"
            for kind, count in self._counts.items()
        ]


def is_name(name: Name) -> bool:
    """Return whether it names something below a folder, and nothing else."""
    return bool(name) and all(_is_part(part) for part in name)


def _is_part(part: str) -> bool:
    try:
        part.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # no bytes of a file name are read as that
        return False
    return part not in ("", ".", "..") and "/" not in part and "\0" not in part


def shown(name: str) -> str:
    """Return a file name in one line, whatever is in it."""
    return name if name.isprintable() else ascii(name)[1:-1]


def entries(root: Path, after: Name = (), at_once: int = 10_000) -> Iterator[tuple[Name, Entry]]:
    """Yield everything below `root` that comes after a name, in order; what vanishes meanwhile is left out.

    at_once: of a folder at most so many names are kept in memory.
    Raises: OutputError where something cannot be read, which does not mean that it is gone.
    """
    try:
        yield from _below(os.path.realpath(root), (), after, at_once)
    except OSError as error:
        where = shown(os.fsdecode(error.filename or root))
        raise OutputError(
            f"{where} cannot be read ({error.strerror or error}): make it readable or remove it"
        ) from error


def _below(root: str, folder: Name, after: Name, at_once: int) -> Iterator[tuple[Name, Entry]]:
    first, rest = (after[0], after[1:]) if after else ("", ())
    seen: str | None = None
    while True:
        here = os.path.join(root, *folder)
        try:
            with os.scandir(here) as found:
                wanted = (e.name for e in found if (e.name >= first if seen is None else e.name > seen))
                names = heapq.nsmallest(at_once, wanted)
        except _VANISHED:
            return
        for base in names:
            if base == first and after and not rest:
                continue  # told before
            with suppress(*_VANISHED):
                yield from _at(root, (*folder, base), rest if base == first else (), at_once)
        if len(names) < at_once:
            return
        seen = names[-1]


def _at(root: str, name: Name, after: Name, at_once: int) -> Iterator[tuple[Name, Entry]]:
    path = os.path.join(root, *name)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        yield name, _entry(root, path, status)
    elif len(name) >= MAX_DEPTH:
        yield name, Entry(Kind.SPECIAL)
    else:
        empty = True
        for entry in _below(root, name, after, at_once):
            empty = False
            yield entry
        if empty and not after:
            yield name, Entry(Kind.FOLDER, mode=status.st_mode & 0o777)


def entry_of(root: Path, path: Path) -> Entry:
    """Return what lies there now. Raises: OSError."""
    status = path.lstat()
    if stat.S_ISDIR(status.st_mode):
        return Entry(Kind.FOLDER, mode=status.st_mode & 0o777)
    return _entry(os.path.realpath(root), str(path), status)


def _entry(root: str, path: str, status: os.stat_result) -> Entry:
    if stat.S_ISREG(status.st_mode):
        return Entry(Kind.FILE, status.st_size, status.st_mtime_ns, status.st_mode & 0o777)
    if not stat.S_ISLNK(status.st_mode):
        return Entry(Kind.SPECIAL)
    # Where it leads at last counts: a link to a link out of the folder leads out, too.
    inside = os.path.realpath(path).startswith(root + os.sep)
    target = os.readlink(path)
    if os.path.isabs(target):  # the folder lies elsewhere on another machine
        target = os.path.relpath(os.path.realpath(path), os.path.realpath(os.path.dirname(path)))
    return Entry(Kind.LINK, target=target) if inside else Entry(Kind.OUTSIDE)


@dataclass(frozen=True)
class Output:
    """One file, link or empty folder of a job's outputs, or what is left out of them."""

    name: Name
    entry: Entry

    @property
    def path(self) -> str:
        return "/".join(self.name)
