"""When a source of a job's log wrote what: a small index beside its output.

Each line of `<source>.times` is a moment and the offset from which on output came then, until the next line or for
`EVERY_S`. A log without an index, as of earlier versions, is read all the same.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

EVERY_S = 1.0  # a line of the index at most so often
MOST_BYTES = 1 << 20  # beyond it the older half is dropped
AT_END = 2**62  # an offset beyond every output


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
        with suppress(OSError):
            with self._path.open("a") as file:
                file.write(f"{now:.3f} {offset}\n")
                full = file.tell() > MOST_BYTES
            if full:
                self._drop_older()

    def _drop_older(self) -> None:
        lines = self._path.read_text().splitlines(keepends=True)
        beside = self._path.with_suffix(".part")
        beside.write_text("".join(lines[len(lines) // 2 :]))
        os.replace(beside, self._path)


def offset_at(path: Path, since_s: float) -> int | None:
    """Return the offset from which on output came at `since_s` or later, or up to `EVERY_S` before.

    `AT_END`: nothing came since. None: the index does not tell.
    """
    rows = list(_rows(path))
    if not rows or (since_s < rows[0][0] and rows[0][1]):
        return None
    at = bisect_left(rows, (since_s,))
    if at and since_s <= rows[at - 1][0] + EVERY_S:
        return rows[at - 1][1]
    return rows[at][1] if at < len(rows) else AT_END


def _rows(path: Path) -> Iterator[tuple[float, int]]:
    """Yield (moment, offset) in order; after a clock was set back the latest moment counts."""
    latest_s = float("-inf")
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        moment, _, offset = line.partition(" ")
        with suppress(ValueError):
            latest_s = max(latest_s, float(moment))
            yield latest_s, int(offset)
