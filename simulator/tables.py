"""Columns of numbers from CSV files, with one clear error for whatever is wrong with a file."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DAY_S = 86_400.0


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """A text file, unpacked where its name ends in `.gz`; raises ValueError for one that cannot be read."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8", newline="")
            if path.suffix == ".gz"
            else path.open(newline="", encoding="utf-8") as file
        ):
            yield file
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from None


def read_rows(path: Path, needed: Sequence[str]) -> list[dict[str, str]]:
    """All rows of a CSV file with a header.

    Raises ValueError for a file that cannot be read, has no rows, lacks a column or ends in the middle of a row.
    """
    with open_text(path) as file:
        rows = csv.DictReader(file)
        missing = [name for name in needed if name not in (rows.fieldnames or ())]
        if missing:
            have = ", ".join(rows.fieldnames or ())[:200] or "nothing"
            raise ValueError(f"{path}: column {missing[0]!r} is missing; the header has {have}")
        found = []
        for row in rows:
            if any(row[name] is None for name in needed):
                raise ValueError(f"{path}: line {rows.line_num} ends before its last column")
            found.append(row)
    if not found:
        raise ValueError(f"{path}: no rows below the header")
    return found


def numbers(
    path: Path, rows: Iterable[Mapping[str, str]], name: str, least: float = -math.inf, whole: bool = False
) -> Floats:
    """One column as numbers of at least `least`; raises ValueError with line, column and value for others."""
    values = []
    for line, row in enumerate(rows, start=2):
        try:
            value = float(row[name])
        except ValueError:
            raise ValueError(f"{path}: line {line}: {name} {row[name]!r} is not a number") from None
        if not math.isfinite(value) or value < least or (whole and value != round(value)):
            wanted = ("a whole number" if whole else "a number") + (
                f" of at least {least:g}" if least > -math.inf else ""
            )
            raise ValueError(f"{path}: line {line}: {name} {row[name]} is not accepted, must be {wanted}")
        values.append(value)
    return np.array(values)


def instants(path: Path, rows: Iterable[Mapping[str, str]], name: str) -> Floats:
    """One column of `YYYY-MM-DD HH:MM:SS` as seconds from one midnight; raises ValueError with line and value."""
    values = []
    for line, row in enumerate(rows, start=2):
        try:
            values.append((datetime.fromisoformat(row[name]) - datetime(2000, 1, 1)).total_seconds())
        except (ValueError, TypeError):
            raise ValueError(
                f"{path}: line {line}: {name} {row[name]!r} is no time like 2020-09-01 00:00:03"
            ) from None
    return np.array(values)
