"""Columns of numbers from CSV files, with one clear error for whatever is wrong with a file."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .text_file import open_lines, rows_left

Floats = NDArray[np.float64]
DAY_S = 86_400.0


def read_rows(path: Path, needed: Sequence[str]) -> list[dict[str, str]]:
    """All rows of a CSV file with a header.

    Raises ValueError for a file that cannot be read, has no rows, has too many, lacks a column or has one twice,
    or in which a row ends early or late.
    """
    with open_lines(path) as lines:
        rows = csv.DictReader(lines)
        names = list(rows.fieldnames or ())
        missing = [name for name in needed if name not in names]
        if missing:
            have = ", ".join(names)[:200] or "nothing"
            raise ValueError(f"{path}: column {missing[0]!r} is missing; the header has {have}")
        twice = next((name for name in needed if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"{path}: the header has column {twice!r} twice")
        found: list[dict[str, str]] = []
        for row in rows:
            if any(row[name] is None for name in needed):
                raise ValueError(f"{path}: line {rows.line_num} ends before its last column")
            if None in row:
                raise ValueError(
                    f"{path}: line {rows.line_num} has more than the {len(names)} columns of the header"
                )
            found.append(row)
            rows_left(path, len(found))
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
