"""Fetching a job's outputs into a folder of the user's."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..core.errors import OutputError
from ..core.output_tree import PART_BYTES, Entry, Kind, LeftOut, Name, Output, entry_of, is_name, shown
from ..core.schemas import OutputRow

AT_ONCE = 1_000  # files whose contents are asked for together


@dataclass(frozen=True)
class Fetched:
    """What a fetch has done."""

    files: int
    bytes: int
    kept: int  # that lay there before, with the same size and time
    notes: tuple[str, ...]  # on what was left out


class Source(Protocol):
    """Where outputs are fetched from: the scheduler service, as a client calls it."""

    def output_contents(self, job_id: str, names: Sequence[Name]) -> Sequence[bytes | None]: ...

    def output_part(self, job_id: str, name: Name, offset: int) -> bytes | None: ...


def fetch(source: Source, job_id: str, outputs: Iterable[Output], dest: Path) -> Fetched:
    """Write outputs into a folder. A file of the same size and time stays; what else lies there is not touched.

    Raises: OutputError where the folder cannot be written.
    """
    into = _Destination(dest)
    try:
        dest.mkdir(parents=True, exist_ok=True)
        remaining = iter(outputs)
        while batch := list(itertools.islice(remaining, AT_ONCE)):
            files = [output for output in batch if into.takes(output)]
            while files:
                contents = source.output_contents(job_id, [output.name for output in files])
                for output, content in zip(files, contents, strict=False):
                    if content is None:
                        into.misses(output)
                    else:
                        into.write(output, _pieces(source, job_id, output, content))
                files = files[len(contents) :]
    except OSError as error:
        raise OutputError(f"{dest}: {error.strerror or error}") from None
    return into.fetched()


def _pieces(source: Source, job_id: str, output: Output, first: bytes) -> Iterator[bytes]:
    offset = 0
    piece: bytes | None = first
    while piece:
        yield piece
        offset += len(piece)
        piece = source.output_part(job_id, output.name, offset) if len(piece) == PART_BYTES else None


class _Destination:
    """The folder outputs are fetched into, and the count of what was."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._left_out = LeftOut()
        self._files = self._bytes = self._kept = 0

    def takes(self, output: Output) -> bool:
        """Return whether its content is wanted; what has none is made at once."""
        path, entry = self._folder.joinpath(*output.name), output.entry
        if not entry.kind.is_kept:
            self._left_out.add(output.name, entry.kind)
            return False
        self._make_room(output)
        if entry.kind is Kind.FILE and not is_there(path, entry):
            return True
        if entry.kind is Kind.FOLDER:
            path.mkdir(exist_ok=True)
        elif entry.kind is Kind.LINK:
            self._put(path, lambda beside: beside.symlink_to(entry.target))
        self._kept += entry.kind is Kind.FILE
        return False

    def misses(self, output: Output) -> None:
        self._left_out.add(output.name, Kind.GONE)

    def write(self, output: Output, pieces: Iterator[bytes]) -> None:
        entry = output.entry

        def fill(beside: Path) -> None:
            with beside.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
                    self._bytes += len(piece)
            beside.chmod(entry.mode or 0o644)
            os.utime(beside, ns=(entry.mtime_ns, entry.mtime_ns))

        self._put(self._folder.joinpath(*output.name), fill)
        self._files += 1

    def fetched(self) -> Fetched:
        return Fetched(self._files, self._bytes, self._kept, tuple(self._left_out.sentences()))

    def _make_room(self, output: Output) -> None:
        """Make the folder it lies in, which no link leads out of the destination."""
        parent = self._folder.joinpath(*output.name[:-1])
        if not is_name(output.name):
            raise OutputError(f"{shown(output.path)} is no name of an output")
        if not parent.resolve().is_relative_to(self._folder.resolve()):
            raise OutputError(f"{parent}: a link leads out of {self._folder}; fetch into another folder")
        parent.mkdir(parents=True, exist_ok=True)

    def _put(self, path: Path, make: Callable[[Path], None]) -> None:
        """Make it beside its place, and let it appear whole."""
        beside = self._folder / f".coadapt-{os.getpid()}.part"
        beside.unlink(missing_ok=True)
        try:
            make(beside)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)


def is_there(path: Path, entry: Entry) -> bool:
    """Return whether the same file, as far as size and time tell, lies there already."""
    with suppress(OSError):
        here = entry_of(path.parent, path)
        return (here.kind, here.size, here.mtime_ns) == (entry.kind, entry.size, entry.mtime_ns)
    return False


def output_row(output: Output) -> OutputRow:
    entry = output.entry
    return OutputRow(
        path=output.path,
        kind=entry.kind.value,
        bytes=entry.size,
        modified_s=entry.mtime_ns / 1e9 if entry.kind is Kind.FILE else None,
        target=entry.target if entry.kind is Kind.LINK else None,
    )
