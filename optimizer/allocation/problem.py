"""Each row picks at most one column, and what is picked fits: the program, and what a solver says of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TOLERANCE = 1e-7


@dataclass(frozen=True)
class ChoiceProblem:
    """value, allowed: (rows, columns); usage: (limits, columns) >= 0; capacity: (limits,); required: (rows,).

    `value` is the gain over picking nothing for the row; only allowed entries are read.

    Raises:
        ValueError: for shapes that do not agree, values that are not finite where allowed, and
            usages or capacities that are negative or not finite.
    """

    value: np.ndarray
    allowed: np.ndarray
    usage: np.ndarray
    capacity: np.ndarray
    required: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.value.ndim != 2:
            raise ValueError(f"value: has shape {self.value.shape}, not (rows, columns)")
        rows, columns = self.value.shape
        expected = {
            "allowed": (rows, columns),
            "usage": (len(self.capacity), columns),
            "capacity": (len(self.capacity),),
            "required": (rows,),
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


@dataclass(frozen=True)
class ChoiceSolution:
    """choice: (rows,) picked column or -1; always within capacity, to 1e-9 of what they take (HiGHS alone: 1e-6).

    objective <= optimum <= bound; gap = (bound - objective) / |bound|. What is worth less than 1e-7 of what a row
    gains on average is not told from nothing.
    prices: (limits,) duals of the LP relaxation, what one more unit of each capacity would add to the objective;
    where a plan within the gap was found before its optimum, those that prove the bound.
    unmet: required rows that could not all be satisfied, the last ones first. solver_s: seconds of `seconds` spent
    in the solver proper.
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
    entries: int = 0  # options of all rows, after dominated ones were left out
    passes: int = 0  # over the rows that are open, to find prices
    pivots: int = 0  # from there to the LP's optimum, where that is needed
