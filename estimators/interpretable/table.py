"""Rows to learn from: named features, a target, and times where there are any. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_ROWS = 2**31 - 1
MOST = 1e100  # of a target, so that its square is a number


@dataclass(frozen=True)
class Feature:
    """A column. `categories`: their names, a value is then a position among them. `whole`: no fractions occur."""

    name: str
    categories: tuple[str, ...] = ()
    whole: bool = False

    def shown(self, value: float) -> str:
        """Return a value as a person reads it."""
        if np.isnan(value):
            return "missing"
        if self.categories:
            known = float(value).is_integer() and 0 <= value < len(self.categories)
            return self.categories[int(value)] if known else "unknown"
        return f"{value:.6g}"


@dataclass(frozen=True)
class Table:
    """Rows to learn from.

    rows: (rows, features); nan where a value is missing.
    target: (rows,) numbers, or positions in `classes`.
    times_s: (rows,) seconds since 1970; None: the order of rows says nothing.

    Raises:
        ValueError: in one sentence, for duplicate names, for other shapes, for infinite values, and for a target
            that is empty, constant or not finite.
    """

    features: tuple[Feature, ...]
    rows: Floats
    target: Floats
    target_name: str = "target"
    classes: tuple[str, ...] = ()
    times_s: Floats | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        names = [one.name for one in self.features]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"features: {twice[0]!r} is there twice; each name is accepted once")
        if not names:
            raise ValueError("features: are none; at least one is accepted")
        if self.rows.ndim != 2 or self.rows.shape[1] != len(names):
            raise ValueError(f"rows: are of shape {self.rows.shape}, and {len(names)} columns are accepted")
        if len(self.rows) != len(self.target) or self.target.ndim != 1:
            raise ValueError(f"{self.target_name}: has {len(self.target)} values for {len(self.rows)} rows")
        if len(self.target) > MOST_ROWS:
            raise ValueError(f"rows: {len(self.target)} are too many; at most {MOST_ROWS} are accepted")
        if self.times_s is not None and self.times_s.shape != self.target.shape:
            raise ValueError(f"times: are {len(self.times_s)} for {len(self.rows)} rows")
        check_target(self.target, self.target_name)
        if np.isinf(self.rows).any():
            column = int(np.argwhere(np.isinf(self.rows))[0, 1])
            raise ValueError(f"{names[column]}: an infinite value is not accepted, must be finite or missing")

    def of(self, chosen: NDArray[np.bool_] | Ints) -> Table:
        """Return some of its rows."""
        times_s = None if self.times_s is None else self.times_s[chosen]
        return replace(self, rows=self.rows[chosen], target=self.target[chosen], times_s=times_s)

    def in_order(self, seed: int) -> Ints:
        """Return the positions of its rows by time; in an order of chance where there are no times."""
        if self.times_s is not None:
            return np.argsort(self.times_s, kind="stable")
        return np.random.default_rng(seed).permutation(len(self.target))


def check_target(target: Floats, name: str) -> None:
    """Raise ValueError, in one sentence, for a target from which nothing can be learned."""
    if not len(target):
        raise ValueError(f"{name}: is empty; at least two rows are accepted")
    if not np.isfinite(target).all():
        raise ValueError(f"{name}: row {int(np.argmin(np.isfinite(target))) + 1} is not a finite number")
    if (large := np.abs(target) > MOST).any():
        row = int(np.argmax(large))
        raise ValueError(f"{name}: row {row + 1} is {target[row]:.6g}; at most {MOST:g} is accepted")
    if (target == target[0]).all():
        raise ValueError(f"{name}: all {len(target)} rows are {target[0]:.6g}; two different values are accepted")


def with_whole(features: Sequence[Feature], rows: Floats) -> tuple[Feature, ...]:
    """Return the features, each marked where none of its values has a fraction."""
    return tuple(
        replace(one, whole=bool((np.mod(column[~np.isnan(column)], 1) == 0).all()))
        for one, column in zip(features, rows.T, strict=True)
    )


def named(names: Sequence[str]) -> tuple[Feature, ...]:
    """Return features of numbers."""
    return tuple(Feature(name) for name in names)


def position(features: Sequence[Feature], which: str | int) -> int:
    """Return the position of a feature, by its name or number.

    Raises:
        ValueError: in one sentence that names the nearest, for an unknown name or number.
    """
    names = [one.name for one in features]
    if isinstance(which, str) and which in names:
        return names.index(which)
    if isinstance(which, int) and not isinstance(which, bool):
        if 0 <= which < len(names):
            return which
        raise ValueError(f"feature: {which} is not accepted, must be from 0 to {len(names) - 1}")
    near = get_close_matches(str(which), names, 1, 0.0)
    hint = f"; the nearest is {near[0]!r}" if near else ""
    raise ValueError(f"feature: {which!r} is unknown{hint}")


def checked_rows(features: Sequence[Feature], rows: Floats) -> Floats:
    """Return rows to predict, (rows, features). Raise ValueError for another number of columns."""
    found = np.ascontiguousarray(rows, float)
    if found.ndim != 2 or found.shape[1] != len(features):
        raise ValueError(f"rows: are of shape {found.shape}, and {len(features)} columns are accepted")
    return found
