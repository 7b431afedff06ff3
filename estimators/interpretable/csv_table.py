"""Tables from CSV files: columns of numbers, and columns of anything else as categories."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from .table import Feature, Floats, Table, named, position

MOST_CATEGORIES = 1000  # of one column; more are a name or a text, which teaches nothing
_MISSING = frozenset({"", "nan", "na", "null", "none"})


def read(
    path: Path,
    target: str,
    *,
    time: str | None = None,
    features: Sequence[str] = (),
    categories: Sequence[str] = (),
    leave_out: Sequence[str] = (),
) -> Table:
    """Return the table of a CSV file with names in its first line; a name in .gz is compressed.

    A target of numbers is predicted as a number, any other as a class.

    Args:
        time: the column of times, in seconds or as in ISO 8601.
        features: columns that are used; none: all others.
        categories: columns of numbers that are names. leave_out: columns that are not used.

    Raises:
        ValueError: in one sentence, for a file that is none, and for columns that are not there or teach nothing.
    """
    names, lines = _lines(path)
    columns = named(names)
    for name in (target, *([time] if time else []), *features, *categories, *leave_out):
        position(columns, name)
    used = [one for one in (features or names) if one not in {target, time, *leave_out}]
    if not used:
        raise ValueError(f"{path}: no column is left to learn from, beside {target}")
    texts = {name: [line[names.index(name)].strip() for line in lines] for name in {*used, target}}
    found = [_column(name, texts[name], name in categories) for name in used]
    times_s = None if time is None else _times(path, [line[names.index(time)] for line in lines])
    classes: tuple[str, ...] = ()
    answers = _numbers(texts[target])
    if answers is None:
        if "" in texts[target]:
            raise ValueError(f"{target}: row {texts[target].index('') + 1} has no value")
        classes = tuple(sorted(set(texts[target])))
        answers = np.array([classes.index(text) for text in texts[target]], float)
    rows = np.column_stack([column for _, column in found]) if lines else np.empty((0, len(found)))
    return Table(tuple(feature for feature, _ in found), rows, answers, target, classes, times_s)


def _lines(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(
            path, "rt", newline="", encoding="utf-8-sig"
        ) as file:  # a mark of the order of bytes is no name
            reader = csv.reader(file)
            names = [name.strip() for name in next(reader, [])]
            lines = [line for line in reader if line]
    except (OSError, UnicodeDecodeError, csv.Error, EOFError) as error:
        told = getattr(error, "strerror", None) or error
        raise ValueError(f"{path}: cannot be read as CSV: {told}") from None
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{path}: column {twice[0]!r} is there twice; each name is accepted once")
    for number, line in enumerate(lines, start=2):
        if len(line) != len(names):
            raise ValueError(f"{path}: line {number} has {len(line)} values for {len(names)} columns")
    if not names:
        raise ValueError(f"{path}: is empty; a line of names and rows are accepted")
    return names, lines


def _column(name: str, texts: Sequence[str], category: bool) -> tuple[Feature, Floats]:
    numbers = None if category else _numbers(texts)
    if numbers is not None:
        if np.isinf(numbers).any():
            raise ValueError(f"{name}: an infinite value is not accepted, must be finite or missing")
        return Feature(name), numbers
    known = sorted({text for text in texts if text.lower() not in _MISSING})
    if len(known) > MOST_CATEGORIES:
        raise ValueError(
            f"{name}: has {len(known)} different texts, and at most {MOST_CATEGORIES} are accepted; leave it out"
        )
    codes = {text: float(code) for code, text in enumerate(known)}
    return Feature(name, tuple(known)), np.array([codes.get(text, math.nan) for text in texts], float)


def _numbers(texts: Sequence[str]) -> Floats | None:
    """Return the numbers of a column, nan where one is missing; None: it holds other texts."""
    try:
        return np.array([math.nan if text.lower() in _MISSING else float(text) for text in texts], float)
    except ValueError:
        return None


def _times(path: Path, texts: Sequence[str]) -> Floats:
    found = []
    for number, text in enumerate(texts, start=2):
        try:
            found.append(float(text))
        except ValueError:
            try:
                at = datetime.fromisoformat(text)
            except ValueError:
                raise ValueError(
                    f"{path}: line {number}: {text!r} is no time, must be seconds or ISO 8601"
                ) from None
            found.append((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    return np.array(found, float)


def row_of(features: Sequence[Feature], values: Sequence[tuple[str, str]]) -> Floats:
    """Return one row, (features,), of values by name as text; what is not given is missing.

    Raises:
        ValueError: in one sentence, for an unknown feature or category, and for what is no number.
    """
    row = np.full(len(features), np.nan)
    for name, text in values:
        at = position(features, name)
        known = features[at].categories
        if text.lower() in _MISSING:
            continue
        if known:
            if text not in known:
                raise ValueError(f"{name}: {text!r} is no category of it; accepted: {', '.join(known[:20])}")
            row[at] = known.index(text)
            continue
        try:
            row[at] = float(text)
        except ValueError:
            raise ValueError(f"{name}: {text!r} is not accepted, must be a number") from None
    return row


def of_model(path: Path, features: Sequence[Feature], target: str, classes: Sequence[str]) -> Table:
    """Return the rows of a CSV file as a model sees them: its columns, in its order and with its codes.

    Raises:
        ValueError: in one sentence, for a column that is missing, and for values that the model does not know.
    """
    names, lines = _lines(path)
    at = {one.name: position(named(names), one.name) for one in (*features, Feature(target))}
    rows = [row_of(features, [(one.name, line[at[one.name]].strip()) for one in features]) for line in lines]
    answers = []
    for line in lines:
        text = line[at[target]].strip()
        if classes and text not in classes:
            raise ValueError(f"{target}: {text!r} is no class; accepted: {', '.join(classes)}")
        answers.append(float(classes.index(text)) if classes else float(_one(target, text)))
    return Table(tuple(features), np.array(rows).reshape(len(rows), len(features)), np.array(answers), target,
                 tuple(classes))  # fmt: skip


def _one(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name}: {text!r} is not accepted, must be a number") from None
