"""Text files line by line, in bounded memory. A file that is no text, or too long, is refused early."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

MOST_LINE = 1 << 20  # characters
MOST_BLANK = 1 << 20  # empty lines in a row
MOST_TEXT = 1 << 29  # characters of the whole unpacked file
MOST_ROWS = 2_000_000


class Lines(Iterator[str]):
    """The lines of a file. Raise ValueError, in one sentence, for lines that nobody wrote.

    `number`: number of the last line that was read, from 1.
    """

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file = path, file
        self.number = self._blank = self._read = 0

    def __next__(self) -> str:
        line = self._file.readline(MOST_LINE + 1)
        if not line:
            raise StopIteration
        self.number += 1
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
        return ValueError(f"{self._path}: line {self.number} {why}")


@contextmanager
def open_lines(path: Path) -> Iterator[Lines]:
    """Open a text file, which is unpacked if its name ends in `.gz`.

    It is UTF-8, or UTF-16 if its byte-order mark says so; spreadsheets save "Unicode text" so. Raise ValueError
    for a file that cannot be read.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            start = file.read(2)
            file.seek(0)
            encoding = "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
            yield Lines(path, io.TextIOWrapper(file, encoding=encoding, newline=""))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        raise ValueError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_text(path: Path) -> str:
    """Return the whole text, within the same bounds. Raise ValueError as `open_lines` does."""
    with open_lines(path) as lines:
        return "".join(lines)


def rows_left(path: Path, count: int) -> None:
    """Raise ValueError if there are more rows than `MOST_ROWS`."""
    if count > MOST_ROWS:
        raise ValueError(f"{path}: has more than {MOST_ROWS} rows, the most that are read; cut it in parts")
