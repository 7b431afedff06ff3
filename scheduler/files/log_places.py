"""Where in a job's output to begin to read: its last lines, or what was written since a moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ...executor.files.job_log import ORDER, segments, times_path
from ...executor.files.log_times import offset_at
from .job_logs import Entry, Files, entry_of, lines_of, prefix_of

BLOCK_BYTES = 64 * 1024


class Place(NamedTuple):
    """An offset of `job_logs.page`, and how many lines from there on are not asked for."""

    offset: int
    left_out: int = 0


def begin(folder: Path, source: str, tail: int | None = None, since_s: float | None = None) -> Place:
    """Return where to begin to read a source of `job_logs.page`.

    Args:
        tail: lines to show at most; None: all.
        since_s: moment from which on lines are wanted; None: from the first on. Of one source, up to a second of
            earlier output may come too.

    Raises: ValueError for a negative tail.
    """
    if tail is not None and tail < 0:
        raise ValueError(f"tail: {tail} is no number of lines; it must be 0 or more")
    prefix = prefix_of(source)
    found = [Place(0)]
    if since_s is not None:
        found.append(_since_together(folder, since_s) if prefix else _since(folder, source, since_s))
    if tail is not None:
        found.append(_last_together(folder, prefix, tail) if prefix else _last(folder, source, tail))
    return max(found)


# --- one source ---------------------------------------------------------------------------------------------


def _last(folder: Path, source: str, lines: int) -> Place:
    """Return where the last lines begin. A last line without an end counts, too."""
    end, seen = _end(folder, source), 0
    if not lines:
        return Place(end)
    for at, block in _blocks_back(folder, source):
        cut = len(block)
        while (cut := block.rfind(b"\n", 0, cut)) >= 0:
            seen += at + cut + 1 < end  # else it ends the last line
            if seen == lines:
                return Place(at + cut + 1)
    return Place(0)


def _since(folder: Path, source: str, since_s: float) -> Place:
    end = _end(folder, source)
    found = offset_at(times_path(folder, source), since_s)
    if found is None:  # a log of an earlier version, or older than its index
        stretches = _entries(folder, since_s)
        found = next((entry.start for entry in stretches if entry.source == source), end)
    return Place(min(found, end))


# --- several sources together -------------------------------------------------------------------------------


def _last_together(folder: Path, prefix: str, lines: int) -> Place:
    files, seen = Files(folder), 0
    if not lines:
        return Place(_end(folder, ORDER))
    for entry in _entries_back(folder):
        if entry.source.startswith(prefix):
            seen += sum(1 for _ in lines_of(files, entry.source, entry.start, entry.length))
        if seen >= lines:
            return Place(entry.at, seen - lines)
    return Place(0)


def _since_together(folder: Path, since_s: float) -> Place:
    return Place(next((entry.at for entry in _entries(folder, since_s)), _end(folder, ORDER)))


def _entries(folder: Path, since_s: float) -> Iterator[Entry]:
    """Yield what came at a moment or later, in order."""
    known = offset_at(times_path(folder, ORDER), since_s)
    files = segments(folder, ORDER)
    for at, (start, path) in enumerate(files):
        following = files[at + 1][0] if at + 1 < len(files) else None
        if known is not None and following is not None and following <= known:
            continue
        begins = start if known is None else max(known, start)
        with suppress(OSError), path.open("rb") as file:
            file.seek(begins - start)
            for line in file:
                entry = entry_of(begins, line)
                begins += len(line)
                if entry is not None and entry.time_s >= since_s:
                    yield entry


def _entries_back(folder: Path) -> Iterator[Entry]:
    """Yield what came, from the newest backwards."""
    rest = b""
    for at, block in _blocks_back(folder, ORDER):
        lines = (block + rest).split(b"\n")
        begins = at + len(block) + len(rest)
        for line in reversed(lines[1:]):
            begins -= len(line)
            if line and (entry := entry_of(begins, line)) is not None:
                yield entry
            begins -= 1
        rest = lines[0]
    if rest and (entry := entry_of(0, rest)) is not None:
        yield entry


# --- files --------------------------------------------------------------------------------------------------


def _end(folder: Path, source: str) -> int:
    found = segments(folder, source)
    return found[-1][0] + found[-1][1].stat().st_size if found else 0


def _blocks_back(folder: Path, source: str) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, data) of a source from its end backwards."""
    for start, path in reversed(segments(folder, source)):
        try:
            with path.open("rb") as file:
                left = file.seek(0, os.SEEK_END)
                while left:
                    size = min(left, BLOCK_BYTES)
                    left -= size
                    file.seek(left)
                    yield start + left, file.read(size)
        except FileNotFoundError:  # dropped since it was listed
            return
