"""Reads the logs that `executor/files/job_log.py` keeps: one source as written, or several line by line."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...core.schemas import ALL, MEASURING
from ...executor.files.job_log import NEWEST_SEGMENTS, ORDER, SEGMENT_BYTES, segments

PAGE_BYTES = 256 * 1024
_MIB = 2**20
LEFT_OUT = (
    f"coadapt: output was left out here; a log keeps its first {SEGMENT_BYTES // _MIB} MiB "
    f"and its newest {NEWEST_SEGMENTS * SEGMENT_BYTES // _MIB} MiB"
)


def page(folder: Path, source: str, offset: int, most: int = PAGE_BYTES) -> tuple[str, int]:
    """Return the next part of a job's output, and the offset after it. The part is "" if there is no more yet.

    `source` is one name, such as `rank-0`, whose output comes as it was written. `ALL` and `MEASURING` join the
    whole lines of all ranks or of all profile runs, each line after its source. Callers only pass offsets back.
    """
    files = Files(folder)
    if prefix := prefix_of(source):
        return _together(files, offset, most, prefix)
    data, offset, gap = files.read(source, offset, most)
    text, used = _whole_characters(data)
    return (f"{LEFT_OUT}\n" if gap else "") + text, offset + used


class Entry(NamedTuple):
    """A line of `order.log` at the offset `at`: which stretch of which source came when."""

    at: int
    time_s: float
    source: str
    start: int
    length: int


def entry_of(at: int, line: bytes) -> Entry | None:
    """Return what a line of `order.log` says; None for one that is torn, as on a disk that was full."""
    try:
        time_s, source, start, length = line.decode().split()
        return Entry(at, float(time_s), source, int(start), int(length))
    except ValueError:
        return None


def prefix_of(source: str) -> str:
    """Return how the sources begin that a name joins; "" for the name of one source."""
    return {ALL: "rank-", MEASURING: "profile-"}.get(source, "")


class Files:
    """The files of one job, listed once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listed: dict[str, list[tuple[int, Path]]] = {}

    def read(self, source: str, offset: int, most: int) -> tuple[bytes, int, bool]:
        """Return a source's data at an offset, where it begins, and whether data before it was dropped."""
        if source not in self._listed:
            self._listed[source] = segments(self._folder, source)
        found = self._listed[source]
        for at, (start, path) in enumerate(found):
            try:
                last, end = at + 1 == len(found), start + path.stat().st_size
                if offset >= end and not last:
                    continue
                if offset > end:  # nobody was given that; no file may be asked for so far a place
                    break
                begin = max(offset, start)
                with path.open("rb") as file:
                    file.seek(begin - start)
                    return file.read(most), begin, begin > offset
            except FileNotFoundError:  # dropped since it was listed
                continue
        return b"", offset, False


def _whole_characters(data: bytes) -> tuple[str, int]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data)
    return text, len(data) - len(decoder.getstate()[0])


def _together(files: Files, offset: int, most: int, prefix: str) -> tuple[str, int]:
    """Return whole lines of several sources in the order in which they came, and the next offset."""
    parts: list[str] = []
    size = 0
    while size < most:
        data, begin, gap = files.read(ORDER, offset, PAGE_BYTES)
        entries = data[: data.rfind(b"\n") + 1]
        if not entries:
            break
        if gap:
            parts.append(f"{LEFT_OUT}\n")
        offset = begin
        for told in entries.split(b"\n")[:-1]:
            at, offset = offset, offset + len(told) + 1
            entry = entry_of(at, told)
            if entry is not None and entry.source.startswith(prefix):
                for line in lines_of(files, entry.source, entry.start, entry.length):
                    parts.append(f"[{entry.source}] {line}\n")
                    size += len(line)
            if size >= most:
                break
    return "".join(parts), offset


def lines_of(files: Files, source: str, start: int, length: int) -> Iterator[str]:
    """Yield the lines of a stretch of one source, without blank ones.

    Of a progress bar the line is what a terminal shows last.
    """
    data = b""
    while len(data) < length:  # the stretch may go on in the next file
        more, _, gap = files.read(source, start + len(data), length - len(data))
        if gap:
            yield LEFT_OUT
            return
        if not more:
            break
        data += more
    for line in data.decode(errors="replace").split("\n"):
        drawn = [part for part in line.split("\r") if part.strip()]
        if drawn:
            yield drawn[-1].rstrip()
