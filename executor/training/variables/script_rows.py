"""Rows that a script appends to a list, one for each batch: numbers in tuples, lists and mappings.

A batch of several passes leaves one row: the mean over passes of its fractions, and the sum of its counts of
samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from .script_frames import FRACTIONS, MOST_LEAVES, WHOLE

DEPTH = 3  # steps into a row, such as a mapping that holds others
_ROWS = (dict, list, tuple)


def numbers_of(row: Any) -> dict[str, Any]:
    """Return single numbers in a row, by their path in it; none for what is no row, or too long for one."""
    return dict(_numbers("", row, DEPTH))


def _numbers(path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if path and _is_number(value):
        yield path, value
    elif isinstance(value, _ROWS) and depth and len(value) <= MOST_LEAVES:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(f"{path}/{key}", item, depth - 1)


def is_row(value: Any) -> bool:
    """Return whether it is no list of samples' entries: a mapping, a tuple of numbers, or numbers of two kinds."""
    if isinstance(value, dict):
        return True
    if not isinstance(value, list | tuple) or not value or not all(map(_is_number, value)):
        return False
    return isinstance(value, tuple) or len(set(map(type, value))) > 1


def with_numbers(row: Any, values: Mapping[str, Any], path: str = "") -> Any:
    """Return the row with other numbers at some paths; mappings and lists stay the same objects."""
    if path in values:
        return values[path]
    if not isinstance(row, _ROWS) or not any(place.startswith(f"{path}/") for place in values):
        return row
    if isinstance(row, dict | list):
        for key, item in list(row.items() if isinstance(row, dict) else enumerate(row)):
            row[key] = with_numbers(item, values, f"{path}/{key}")
        return row
    items = [with_numbers(item, values, f"{path}/{i}") for i, item in enumerate(row)]
    return type(row)(*items) if hasattr(row, "_fields") else type(row)(items)


class RowCounts:
    """Finds out which whole numbers of rows count samples, or items of them: those that differ between passes.

    Numbers that equal the samples of each pass count them, too, unless they were others in some batch before.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._others: set[str] = set()

    def total(self, path: str, passes: Sequence[tuple[float, Any]]) -> Any:
        """Return the sum over passes of what is at `path`, by samples of each; None where it counts nothing."""
        first, *others = [value for _, value in passes]
        if any(value != first for value in others):
            self._known.add(path)
        elif any(value != samples for samples, value in passes):
            self._others.add(path)
        counts = path in self._known or path not in self._others
        return sum(others, first) if counts else None


def is_whole(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point()
    return type(value) in WHOLE


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.ndim == 0 and not value.requires_grad and value.dtype.is_signed and not value.is_complex()
    return type(value) in (*WHOLE, *FRACTIONS) and not isinstance(value, np.bool_)
