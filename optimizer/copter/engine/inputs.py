"""Checks what callers give and returns it as arrays. Each error is one sentence, before anything is changed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...compiled import kernel

# One number for each variable, one number for all, or (indices, values).
Coefficients = float | Sequence[float] | np.ndarray | tuple[Any, Any]
Triplets = tuple[np.ndarray, np.ndarray, np.ndarray]
INFINITE = 1e18  # sides and bounds of this size count as infinite, as sums with them are only rounding
LARGEST = 1e100  # limit of costs and coefficients, so that their squares are numbers
OUTSIDE, TWICE, TOO_LARGE = -1, -2, -3  # what is wrong with coefficients


@dataclass(frozen=True, eq=False)
class Row:
    """A row lower <= coefficients @ x <= upper over the variables of one request.

    coefficients: one number for each variable, one number for all, or (indices, values).
    lower, upper: numbers, or (requests,) for many requests at once.
    """

    coefficients: Coefficients
    lower: float | np.ndarray = -math.inf
    upper: float | np.ndarray = math.inf


def hashable(what: str, name: object) -> None:
    """Raise ValueError for a name that cannot be a key."""
    try:
        hash(name)
    except TypeError:
        raise ValueError(f"{what}: is of type {type(name).__name__}, which cannot be a key of a dict") from None


def sequence(what: str, given: object, accepted: str) -> None:
    """Raise ValueError for what is no sequence, or a text."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence | np.ndarray):
        raise ValueError(f"{what}: is of type {type(given).__name__}; {accepted} is accepted")


def ids_of(given: Sequence[Hashable] | np.ndarray) -> list[Hashable]:
    """Return the ids of requests. Raises ValueError if one is repeated."""
    sequence("ids", given, "a list of ids")
    ids = [*given]
    try:
        different = len(set(ids))
    except TypeError:
        for i, id in enumerate(ids):
            hashable(f"ids: entry {i}", id)
        raise
    if different < len(ids):
        raise ValueError(f"ids: name a request twice among {len(ids)}; each at most once is accepted")
    return ids


def joined(parts: Sequence[Triplets]) -> Triplets:
    """Return columns, rows and values of all parts, one behind another."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return none, none, np.zeros(0)
    column, row, value = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return column, row, value


def mapping(what: str, given: object, accepted: str) -> None:
    """Raise ValueError for what is no mapping."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{what}: is of type {type(given).__name__}; {accepted} is accepted")


def _array(what: str, given: object) -> np.ndarray:
    """Return an array of numbers of any type."""
    try:
        array = np.asarray(given)
    except ValueError:  # of different lengths
        raise ValueError(f"{what}: is no array of numbers, as its parts have different lengths") from None
    if array.dtype.kind == "O" and all(isinstance(entry, int | float) for entry in array.flat):
        array = _as_floats(what, array)  # some are whole numbers that no integer of numpy holds
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{what}: is of type {type(given).__name__}, with entries that are no numbers")
    return array


def _as_floats(what: str, array: np.ndarray) -> np.ndarray:
    try:
        return array.astype(float)
    except OverflowError:
        raise ValueError(f"{what}: has a whole number that is too large; up to 1e308 is accepted") from None


def numbers(what: str, given: object) -> np.ndarray:
    """Return an array of floats of any shape, which may be infinite or nan."""
    return _array(what, given).astype(float, copy=False)


def number(what: str, given: object) -> float:
    """Return one number, which may be infinite or nan."""
    array = numbers(what, given)
    if array.ndim:
        raise ValueError(f"{what}: has shape {array.shape}; one number is accepted")
    return float(array)


def opened(side: np.ndarray) -> np.ndarray:
    """Return a side, with infinity in place of numbers of size `INFINITE`."""
    return np.where(np.abs(side) >= INFINITE, np.copysign(np.inf, side), side)


def _side(what: str, given: object, count: int) -> np.ndarray:
    """Return (count,) bounds or sides, after `opened`. One number may be given for all."""
    if isinstance(given, float):
        return np.full(count, math.copysign(math.inf, given) if abs(given) >= INFINITE else given)
    array = opened(numbers(what, given))
    if array.shape not in ((), (count,)):
        raise ValueError(f"{what}: has shape {array.shape}, not () or ({count},)")
    return array if array.ndim else np.full(count, array)


@kernel
def _first_empty(lower: np.ndarray, upper: np.ndarray) -> int:
    """Return the first place without a number between lower and upper, or else their length."""
    for i in range(len(lower)):
        if not (lower[i] <= upper[i] and lower[i] < math.inf and upper[i] > -math.inf):
            return i
    return len(lower)


def sides_of(what: str, lower: object, upper: object) -> tuple[float, float]:
    """Return (lower, upper). Raises ValueError if no number is between them."""
    low, high = opened(np.array([number(f"{what}, lower", lower), number(f"{what}, upper", upper)]))
    if not (low <= high and low < math.inf and high > -math.inf):
        raise ValueError(f"{what}: lower {lower} and upper {upper} hold no number; lower <= upper is accepted")
    return float(low), float(high)


def sides_of_all(what: str, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sides of many rows, after `opened`. Raises ValueError if a row holds no number."""
    low, high = _side(f"lower of {what}", lower, len(lower)), _side(f"upper of {what}", upper, len(lower))
    i = _first_empty(low, high)
    if i < len(low):
        raise ValueError(f"{what}: lower {lower[i]:g} and upper {upper[i]:g} of row {i} hold no number")
    return low, high


def finite(what: str, given: object, count: int | None = None) -> np.ndarray:
    """Return (count,) costs. Raises ValueError if they are not finite or too large."""
    array = np.array(numbers(what, given))
    if array.ndim != 1 or (count is not None and len(array) != count):
        wanted = "(variables,)" if count is None else f"({count},)"
        raise ValueError(f"{what}: has shape {array.shape}, not {wanted}")
    i = _first_too_large(array)
    if i < len(array):
        raise ValueError(f"{what}: entry {i} is {array[i]}; finite numbers below {LARGEST:g} in size are accepted")
    return array


def sizes_of(given: Sequence[int] | np.ndarray, count: int) -> np.ndarray:
    sizes = _array("sizes", given)
    if sizes.shape != (count,):
        raise ValueError(f"sizes: has shape {sizes.shape}, not ({count},), one for each id")
    if count and (not np.issubdtype(sizes.dtype, np.integer) or sizes.min() < 0):
        raise ValueError("sizes: has entries that are not whole or below 0; numbers of variables are accepted")
    return sizes.astype(np.int64)


def bounds_of(what: str, lower: Any, upper: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    low, high = _side(f"lower of {what}", lower, count), _side(f"upper of {what}", upper, count)
    i = _first_empty(low, high)
    if i < count:
        raise ValueError(f"bounds of {what}: lower {low[i]} and upper {high[i]} of variable {i} hold no number")
    return low, high


@kernel
def _first_too_large(value: np.ndarray) -> int:
    """Return the first place of what is not a number below LARGEST in size, or else the length."""
    for i in range(len(value)):
        if not abs(value[i]) < LARGEST:
            return i
    return len(value)


@kernel
def _kept(index: np.ndarray, value: np.ndarray, count: int) -> int:
    """Move nonzero entries to the front and return their number, or else OUTSIDE, TWICE or TOO_LARGE."""
    last, ordered, kept = -1, True, 0
    for i in range(len(index)):
        if not 0 <= index[i] < count:
            return OUTSIDE
        ordered &= index[i] > last
        last = index[i]
    if not ordered:
        seen = np.zeros(count, np.bool_)
        for i in index:
            if seen[i]:
                return TWICE
            seen[i] = True
    for i in range(len(index)):
        if not abs(value[i]) < LARGEST:
            return TOO_LARGE
        if value[i] != 0.0:
            index[kept], value[kept] = index[i], value[i]
            kept += 1
    return kept


def coefficients_of(what: str, given: Coefficients, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (indices, values) of the nonzero coefficients. Raises ValueError for bad ones."""
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ValueError(f"{what}: is a tuple of {len(given)}; (indices, values) is accepted")
        whole, value = _array(f"{what}, indices", given[0]), numbers(what, given[1])
        value = np.full(whole.shape, value) if value.ndim == 0 else value
        if whole.ndim != 1 or value.shape != whole.shape:
            raise ValueError(f"{what}: indices and values have shapes {whole.shape} and {value.shape}, not one")
        if len(whole) and whole.dtype.kind not in "iu":
            raise ValueError(f"{what}: indices are {whole.dtype}; whole numbers are accepted")
        index = np.array(whole, dtype=np.int64)
    else:
        value = numbers(what, given)
        value = np.full(count, value) if value.ndim == 0 else value
        if value.shape != (count,):
            raise ValueError(f"{what}: has shape {value.shape}, not ({count},)")
        index = np.arange(count)
    value = np.array(value)
    kept = _kept(index, value, count)
    if kept == OUTSIDE:
        raise ValueError(f"{what}: indices reach from {index.min()} to {index.max()}, not within 0 to {count - 1}")
    if kept == TWICE:
        raise ValueError(f"{what}: has an index twice; each at most once is accepted")
    if kept == TOO_LARGE:
        raise ValueError(f"{what}: has coefficients that are not finite, or {LARGEST:g} and more in size")
    return index[:kept], value[:kept]


def rows_of(what: str, rows: Sequence[Row], sizes: np.ndarray) -> tuple[Triplets, tuple[np.ndarray, np.ndarray]]:
    """Return the entries and the sides (requests * rows,) of requests' rows, one request behind another."""
    sequence(f"rows of {what}", rows, "a list of Row")
    count, many = len(sizes), len(rows)
    owner = np.repeat(np.arange(count), sizes)
    parts, low, high = [], np.empty((count, many)), np.empty((count, many))
    for i, row in enumerate(rows):
        if not isinstance(row, Row):
            raise ValueError(f"row {i} of {what}: is of type {type(row).__name__}; a Row is accepted")
        index, value = coefficients_of(f"row {i} of {what}", row.coefficients, len(owner))
        parts.append((index, owner[index] * many + i, value))
        lower, upper = (_side(f"row {i} of {what}: a side", side, count) for side in (row.lower, row.upper))
        low[:, i], high[:, i] = lower, upper
        k = _first_empty(lower, upper)
        if k < count:
            raise ValueError(f"row {i} of {what}: lower {low[k, i]} and upper {high[k, i]} hold no number")
    return joined(parts), (low.ravel(), high.ravel())
