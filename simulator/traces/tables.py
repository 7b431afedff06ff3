"""Columns of numbers from CSV files of many origins. A bad file gives one clear error.

Commas, semicolons, tabs or bars stand between the columns, with or without spaces and quotes. Names of columns
may be in capitals, and comments begin with `#`. Spreadsheets add a byte-order mark and empty rows and columns.
"""

from __future__ import annotations

import csv
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .text_file import Lines, open_lines, rows_left

Floats = NDArray[np.float64]
DAY_S = 86_400.0
SEPARATORS = (",", ";", "\t", "|")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


class Row(dict[str, str]):
    """The fields of a line by the names of their columns."""

    __slots__ = ("decimal_comma", "line")
    line: int
    decimal_comma: bool  # the separator is a semicolon, with which many spreadsheets write 9,5


class Header(NamedTuple):
    """The names of a file's columns, the separator between them, and whether the line is a comment."""

    names: tuple[str, ...]
    separator: str
    comment: bool


def column(name: str) -> str:
    """Return a name as columns are compared: `Num-Replicas ` is `num_replicas`."""
    return re.sub(r"[\s-]+", "_", name.strip().strip("\ufeff\"'").strip().lower())


def header_of(line: str, needed: Iterable[str]) -> Header | None:
    """Return the line as a header with these columns; None: it lacks one."""
    text = line.strip("\r\n").lstrip("\ufeff")
    comment = text.lstrip().startswith("#")
    text = text.lstrip().lstrip("#") if comment else text
    for separator in SEPARATORS:
        names = next(csv.reader([text], delimiter=separator, skipinitialspace=True), [])
        while names and not names[-1].strip():  # spreadsheets leave empty columns after the last
            names.pop()
        if set(needed) <= {column(name) for name in names}:
            return Header(tuple(name.strip() for name in names), separator, comment)
    return None


def read_rows(path: Path, needed: Sequence[str], known: Sequence[str] = ()) -> list[Row]:
    """Return all rows of a CSV file with a header.

    `known`: further columns, whose names are matched as freely as those needed.

    Raise ValueError for a file that cannot be read, or has no rows or too many. Raise it also for a column that
    is missing or there twice, and for a row that ends early or late.
    """
    with open_lines(path) as lines:
        header, first = _find_header(path, lines, needed)
        canonical = {column(name): name for name in (*known, *needed)}
        names = [canonical.get(column(name), name) for name in header.names]
        twice = next((name for name in needed if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"{path}: the header has column {twice!r} twice")
        found = list(_rows(path, lines, first, header, names, max(names.index(name) for name in needed)))
    if not found:
        raise ValueError(f"{path}: no rows below the header")
    return found


def _find_header(path: Path, lines: Lines, needed: Sequence[str]) -> tuple[Header, str]:
    """Return the header, and the line below if that was read on the way.

    Comments and blank lines may stand above. Raise ValueError if a needed column is missing.
    """
    commented: Header | None = None
    for line in lines:
        if not line.strip():
            continue
        header = header_of(line, needed)
        if header is not None and not header.comment:
            return header, ""
        if line.lstrip("\ufeff \t").startswith("#"):
            commented = header or commented
            continue
        if commented is not None:
            return commented, line
        names = [name.strip() for name in next(csv.reader([line], skipinitialspace=True), [])]
        columns = {column(name) for name in names}
        missing = next(name for name in needed if name not in columns)
        raise ValueError(f"{path}: column {missing!r} is missing; the header has {', '.join(names)[:200]}")
    if commented is not None:
        raise ValueError(f"{path}: no rows below the header")
    raise ValueError(f"{path}: column {needed[0]!r} is missing; the header has nothing")


def _rows(
    path: Path, lines: Lines, first: str, header: Header, names: Sequence[str], last_needed: int
) -> Iterator[Row]:
    """Yield the rows below the header. Warn of rows behind a `#`; raise ValueError for a row that ends early or
    late.
    """
    count, ignored = 0, 0

    def without_comments() -> Iterator[str]:
        nonlocal ignored
        if first:
            yield first
        for line in lines:
            if line.lstrip().startswith("#"):
                ignored += line.count(header.separator) == len(names) - 1
            else:
                yield line

    for fields in csv.reader(without_comments(), delimiter=header.separator, skipinitialspace=True):
        if not any(field.strip() for field in fields):
            continue
        if len(fields) <= last_needed:
            raise ValueError(f"{path}: line {lines.number} ends before its last column")
        if any(field.strip() for field in fields[len(names) :]):
            raise ValueError(f"{path}: line {lines.number} has more than the {len(names)} columns of the header")
        row = Row(zip(names, [field.strip() for field in fields], strict=False))
        row.line, row.decimal_comma = lines.number, header.separator == ";"
        count += 1
        rows_left(path, count)
        yield row
    if ignored:
        rows = f"{ignored} line{'s' * (ignored > 1)}"
        warnings.warn(f"{path}: {rows} of all columns behind a # left out", stacklevel=2)


def named(path: Path, rows: Iterable[Row], name: str) -> None:
    """Raise ValueError, with the line, for the first row without a name."""
    for row in rows:
        if not row[name]:
            raise ValueError(f"{path}: line {row.line}: {name} is empty; every job needs a name of its own")


def numbers(path: Path, rows: Iterable[Row], name: str, least: float = -math.inf, whole: bool = False) -> Floats:
    """Return (rows,) one column as numbers of at least `least`.

    Raise ValueError, with line, column and value, for other numbers.
    """
    values = []
    for row in rows:
        text = row.get(name, "")
        if row.decimal_comma and _DECIMAL_COMMA.fullmatch(text):
            text = text.replace(",", ".")
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{path}: line {row.line}: {name} {row.get(name, '')!r} is not a number") from None
        if not math.isfinite(value) or value < least or (whole and value != round(value)):
            wanted = ("a whole number" if whole else "a number") + (
                f" of at least {least:g}" if least > -math.inf else ""
            )
            raise ValueError(f"{path}: line {row.line}: {name} {row[name]} is not accepted, must be {wanted}")
        values.append(value)
    return np.array(values)


def instants(path: Path, rows: Iterable[Row], name: str) -> Floats:
    """Return (rows,) one column of `YYYY-MM-DD HH:MM:SS` as seconds since 1970 by the same clock.

    Raise ValueError, with line and value, for what is no time.
    """
    values = []
    for row in rows:
        try:
            values.append(instant(row[name]))
        except ValueError as error:
            raise ValueError(f"{path}: line {row.line}: {name} {error}") from None
    return np.array(values)


def instant(text: str) -> float:
    """Return `YYYY-MM-DD HH:MM:SS` as seconds since 1970 by the same clock. Raise ValueError for no time."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        return (moment - datetime(1970, 1, 1)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{text!r} is no time like 2020-09-01 00:00:03") from None
