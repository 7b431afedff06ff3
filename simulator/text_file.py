"""Text files line by line, in bounded memory: what is no text, or has no end, is refused early."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

MOST_LINE = 1 << 20  # characters
MOST_BLANK = 1 << 20  # lines without anything, one after the other
MOST_TEXT = 1 << 29  # characters in all, unpacked
MOST_ROWS = 2_000_000


class Lines(Iterator[str]):
    """The lines of a file; raises ValueError, in one sentence, where they are none that anyone wrote."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file = path, file
        self._number = self._blank = self._read = 0

    def __next__(self) -> str:
        line = self._file.readline(MOST_LINE + 1)
        if not line:
            raise StopIteration
        self._number += 1
        self._read += len(line)
        self._blank = self._blank + 1 if line.isspace() else 0
        if "\0" in line:
            raise self._refused("holds zero bytes: it is no text")
        if len(line) > MOST_LINE:
            raise self._refused(f"is longer than {MOST_LINE} characters")
        if self._blank >= MOST_BLANK:
            raise self._refused(f"ends {MOST_BLANK} lines without anything")
        if self._read > MOST_TEXT:
            raise self._refused(f"is beyond the first {MOST_TEXT >> 20} MiB of text, the most that is read")
        return line

    def _refused(self, why: str) -> ValueError:
        return ValueError(f"{self._path}: line {self._number} {why}")


@contextmanager
def open_lines(path: Path) -> Iterator[Lines]:
    """A text file, unpacked where its name ends in `.gz`; raises ValueError for one that cannot be read."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig", newline="")
            if path.suffix == ".gz"
            else path.open(newline="", encoding="utf-8-sig") as file
        ):
            yield Lines(path, file)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        raise ValueError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_text(path: Path) -> str:
    """All of it, within the same bounds."""
    with open_lines(path) as lines:
        return "".join(lines)


def rows_left(path: Path, count: int) -> None:
    """Raises ValueError once there are more rows than are read."""
    if count > MOST_ROWS:
        raise ValueError(f"{path}: has more than {MOST_ROWS} rows, the most that are read; cut it in parts")
