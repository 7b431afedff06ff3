"""The output of a job's processes, in files that a person can follow.

`<source>.log` of each rank or profile run holds its output as written, progress bars included. `order.log` lists
in which order whole lines of the sources came. A log that grows goes on in `<source>@<offset>.log`; the first and
the newest of these stay, so that no log grows without bound. `<source>.times` says when what was written
(`log_times.py`).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .log_times import LogTimes

SEGMENT_BYTES = 8 * 2**20
NEWEST_SEGMENTS = 7  # beside the first
MOST_LINE = 64 * 1024  # characters; a longer line counts as several in `order.log`
ORDER = "order"

Piece = tuple[str, str, str]  # source, text, and the worker that wrote it; without a text, its line ends


def segments(folder: Path, source: str) -> list[tuple[int, Path]]:
    """Return the files of a source with the offset at which each begins, in order."""
    name = _file_name(source)
    found = [(0, path)] if (path := folder / f"{name}.log").exists() else []
    for path in folder.glob(f"{name}@*.log"):
        start = path.stem.rpartition("@")[2]
        if start.isdecimal():
            found.append((int(start), path))
    return sorted(found)


def sources(folder: Path) -> list[str]:
    """Return the names of all sources that wrote something."""
    names = {path.stem.partition("@")[0] for path in folder.glob("*.log")}
    return sorted(names - {ORDER})


def times_path(folder: Path, source: str) -> Path:
    """Return the index of a source, which `log_times` reads."""
    return folder / f"{_file_name(source)}.times"


def _file_name(source: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", source)


@dataclass
class _Log:
    """Hold one source while it is written to. Offsets are in bytes from its beginning."""

    folder: Path
    name: str
    file: BinaryIO
    times: LogTimes
    start: int  # of the segment that is open
    end: int
    ordered: int  # its lines up to here are in `order.log`
    writer: str | None = ""  # None: whoever writes next
    last: str = "\n"  # character

    @classmethod
    def open(cls, folder: Path, name: str) -> _Log:
        folder.mkdir(parents=True, exist_ok=True)
        start, path = (segments(folder, name) or [(0, folder / f"{_file_name(name)}.log")])[-1]
        size = path.stat().st_size if path.exists() else 0
        times = LogTimes(times_path(folder, name))
        log = cls(folder, name, path.open("ab"), times, start, start + size, start + size)
        if size:  # its last writer is gone and may have left half a line
            with path.open("rb") as file:
                file.seek(-min(size, MOST_LINE), 2)
                tail = file.read()
            whole = max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1
            log.ordered = log.end - (len(tail) - whole)
            log.last = "\n" if tail.endswith(b"\n") else "?"
        return log

    def append(self, text: str, segment_bytes: int) -> None:
        self.times.at(self.end, time.time())
        if self.end - self.start >= segment_bytes:
            self._next_segment()
        data = text.encode()
        self.file.write(data)
        self.file.flush()
        self.end += len(data)
        self.last = text[-1]

    def _next_segment(self) -> None:
        self.file.close()
        self.start = self.end
        self.file = (self.folder / f"{_file_name(self.name)}@{self.start}.log").open("ab")
        for _, path in segments(self.folder, self.name)[1:-NEWEST_SEGMENTS]:
            path.unlink(missing_ok=True)


class JobLog:
    """Write what a job's workers print; nothing if `folder` is empty.

    A full or missing disk loses lines, never the job.

    Args:
        goes_on: whether workers that wrote here before go on in the middle of their lines.
    """

    def __init__(self, folder: str, segment_bytes: int = SEGMENT_BYTES, *, goes_on: bool = False) -> None:
        self._folder = Path(folder) if folder else None
        self._segment_bytes, self._goes_on = segment_bytes, goes_on
        self._logs: dict[str, _Log] = {}

    def write(self, source: str, text: str, writer: str = "") -> None:
        """Add the next part of the output of a worker, `writer`, under the name `source`."""
        if self._folder is None or not text:
            return
        try:
            log = self._log(source)
            if log.writer not in (writer, None) and log.last != "\n":
                self._append(log, "\n")  # the one before it left in the middle of a line
            log.writer = writer
            self._append(log, text)
        except OSError:
            self._logs.clear()

    def end(self, writer: str) -> None:
        """End the last line of a worker that is gone."""
        for log in list(self._logs.values()):
            if log.writer == writer and log.last != "\n":
                self.write(log.name, "\n", writer)

    def flush(self, until_s: float) -> bool:
        """Return whether everything is written; it always is."""
        return True

    def wait_for_room(self) -> None:
        """Return at once: nothing waits to be written."""

    def ends(self, sources: Iterable[str]) -> dict[str, int]:
        """Return how long the output of each source is, and of all that are open, in bytes. Raises: OSError."""
        return {source: self._log(source).end for source in {*sources, *self._logs, ORDER}}

    def rewind(self, ends: Mapping[str, int]) -> None:
        """Take back what sources have written beyond these ends. Raises: OSError."""
        assert self._folder is not None
        self.close()
        for source, end in ends.items():
            for start, path in segments(self._folder, source):
                if start and start >= end:
                    path.unlink()
                elif start + path.stat().st_size > end:
                    os.truncate(path, end - start)

    def close(self) -> None:
        for log in self._logs.values():
            log.file.close()
        self._logs.clear()

    def _log(self, source: str) -> _Log:
        assert self._folder is not None
        if source not in self._logs:
            self._logs[source] = log = _Log.open(self._folder, source)
            log.writer = None if self._goes_on else ""
        return self._logs[source]

    def _append(self, log: _Log, text: str) -> None:
        before = log.end
        log.append(text, self._segment_bytes)
        whole = max(text.rfind("\n"), text.rfind("\r")) + 1
        ordered = before + len(text[:whole].encode()) if whole else log.ordered
        if log.end - ordered > MOST_LINE:
            ordered = log.end
        if ordered > log.ordered:
            line = f"{time.time():.3f} {_file_name(log.name)} {log.ordered} {ordered - log.ordered}\n"
            self._log(ORDER).append(line, self._segment_bytes)
            log.ordered = ordered
