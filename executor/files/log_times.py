"""When a source of a job's log wrote what: a small index beside its output.

Each line of `<source>.times` is a moment and the offset from which on output came then or later. It is a hint. A
log without one, as of earlier versions, is read all the same.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from contextlib import suppress
from pathlib import Path

EVERY_S = 1.0  # a line of the index at most so often
MOST_BYTES = 1 << 20  # beyond it every second one of its older lines is left out


class LogTimes:
    """Write the index of one source."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last_s = float("-inf")

    def at(self, offset: int, now: float) -> None:
        """Note that output comes from an offset on. A clock that was set back begins no earlier line."""
        if now < self._last_s + EVERY_S:
            return
        self._last_s = now
        with suppress(OSError), self._path.open("a") as file:
            file.write(f"{now:.3f} {offset}\n")
            if file.tell() > MOST_BYTES:
                self._thin()

    def _thin(self) -> None:
        lines = self._path.read_text().splitlines(keepends=True)
        older = len(lines) // 2
        beside = self._path.with_suffix(".times.part")
        beside.write_text("".join([*lines[:older:2], *lines[older:]]))
        os.replace(beside, self._path)


def offset_at(path: Path, since_s: float) -> int | None:
    """Return an offset before which nothing was written at `since_s` or later; None without an index."""
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError):
        return None
    found = sorted((float(row[0]), int(row[1])) for row in rows if len(row) == 2 and row[1].isdecimal())
    if not found:
        return None
    at = bisect_left(found, (since_s,))
    return found[max(at - 1, 0)][1]
