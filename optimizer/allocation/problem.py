"""An allocation program as plain arrays, and its solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TOLERANCE = 1e-7


@dataclass(frozen=True)
class ChoiceProblem:
    """A multiple-choice knapsack with several limits: each row picks at most one column, and all picks fit.

    A row is a class of the knapsack. Its allowed columns are the options of the class.

    value, allowed: (rows, columns) gains over picking nothing, and which of them are options.
    usage: (limits, columns) >= 0, what a column takes of each limit. It is (kinds, limits, columns) if it depends
        on the kind of the row.
    capacity: (limits,).
    required: (rows,) whether a row must pick something.
    kind: (rows,) the kind of each row; 0 by default.

    Raises:
        ValueError: for shapes that do not agree, allowed values that are not finite and unknown kinds. Also for
            usages or capacities that are negative or not finite.
    """

    value: np.ndarray
    allowed: np.ndarray
    usage: np.ndarray
    capacity: np.ndarray
    required: np.ndarray | None = None
    kind: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.value.ndim != 2:
            raise ValueError(f"value: has shape {self.value.shape}, not (rows, columns)")
        rows, columns = self.value.shape
        kinds = self.usage.shape[:1] if self.usage.ndim == 3 else ()
        expected = {
            "allowed": (rows, columns),
            "usage": (*kinds, len(self.capacity), columns),
            "capacity": (len(self.capacity),),
            "required": (rows,),
            "kind": (rows,),
        }
        for name, shape in expected.items():
            array = getattr(self, name)
            if array is not None and array.shape != shape:
                raise ValueError(f"{name}: has shape {array.shape}, not {shape} as value and capacity say")
        bad = self.allowed & ~np.isfinite(self.value)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            found = self.value[row, column]
            raise ValueError(f"value[{row}, {column}]: is {found}, not a finite number, where it is allowed")
        for name in ("usage", "capacity"):
            array = getattr(self, name)
            if not np.isfinite(array).all() or (array < 0).any():
                raise ValueError(f"{name}: has entries that are negative or not finite; 0 or more is accepted")
        checked_kinds(self.kind, rows, kinds[0] if kinds else 1)

    @property
    def kinds(self) -> np.ndarray:
        """(rows,) the kind of each row."""
        return np.zeros(len(self.value), np.int64) if self.kind is None else self.kind

    @property
    def usage_by_kind(self) -> np.ndarray:
        """(kinds, limits, columns)."""
        return self.usage[None] if self.usage.ndim == 2 else self.usage

    def usage_of(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Return (limits, picks) what rows take of each limit in the columns they pick."""
        if self.usage.ndim == 2:
            return self.usage[:, column]
        return self.usage[self.kinds[row], :, column].T


def checked_kinds(kind: np.ndarray | None, rows: int, kinds: int) -> np.ndarray:
    """Return the kinds of rows, 0 by default. Raises ValueError unless they are from 0 to kinds - 1."""
    if kind is None:
        return np.zeros(rows, np.int64)
    if np.shape(kind) != (rows,):
        raise ValueError(f"kind: has shape {np.shape(kind)}, not ({rows},)")
    if kind.dtype.kind not in "iu" or not ((kind >= 0) & (kind < kinds)).all():
        raise ValueError(f"kind: must be whole numbers from 0 to {kinds - 1}, as usage says")
    return kind.astype(np.int64)


@dataclass(frozen=True)
class ChoiceSolution:
    """A plan, and what is proven of it: objective <= optimum <= bound.

    The plan fits the limits to 1e-9 of what it takes; a plan of HiGHS alone to 1e-6. A gain below 1e-7 of a row's
    average gain counts as none.

    choice: (rows,) the picked column, -1 for none.
    gap: (bound - objective) / |bound|.
    prices: (limits,) the multipliers that prove the bound: about what one more unit of each limit would add.
    proven: whether the gap is at most what was asked for.
    unmet: required rows that could not be served, the last ones first.
    solver_s: the part of `seconds` inside the solver itself.
    """

    choice: np.ndarray
    objective: float
    bound: float
    gap: float
    prices: np.ndarray
    proven: bool
    unmet: tuple[int, ...] = ()
    seconds: float = 0.0
    solver_s: float = 0.0
    entries: int = 0  # options of all rows, without dominated ones
    passes: int = 0  # passes over open rows to find prices
    pivots: int = 0  # pivots of the simplex method, if the LP's vertex was needed
