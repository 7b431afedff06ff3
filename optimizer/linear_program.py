"""A linear program as plain arrays, and its solution, as engine, baselines and problems exchange them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import sparse


class Status(StrEnum):
    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    STOPPED = "stopped"  # at a limit, or as numbers failed; x, if any, is the best found and may be infeasible


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """Minimise cost @ x  subject to  row_lower <= matrix @ x <= row_upper  and  lower <= x <= upper.

    cost, lower, upper: (columns,); bounds may be infinite.
    matrix: (rows, columns) sparse.
    row_lower, row_upper: (rows,); sides may be infinite.
    integer: (columns,) mask of what must be whole numbers; None for nothing.

    Raises:
        ValueError: for shapes that do not agree, an `integer` that is not of bool, entries that are nan, and
            infinite costs or coefficients. Also for a lower side of +inf, an upper one of -inf, and a lower side
            above the upper one.
    """

    cost: np.ndarray
    matrix: sparse.csr_array
    row_lower: np.ndarray
    row_upper: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    integer: np.ndarray | None = None

    def __post_init__(self) -> None:
        rows, columns = self.matrix.shape
        expected = {
            "cost": columns,
            "lower": columns,
            "upper": columns,
            "integer": columns,
            "row_lower": rows,
            "row_upper": rows,
        }
        for name, size in expected.items():
            array = getattr(self, name)
            if array is not None and array.shape != (size,):
                raise ValueError(f"{name}: has shape {array.shape}, not ({size},) as the matrix says")
        if self.integer is not None and self.integer.dtype != bool:
            raise ValueError(f"integer: is of {self.integer.dtype}, not of bool")
        for name, array in (("cost", self.cost), ("matrix", self.matrix.data)):
            if not np.isfinite(array).all():
                raise ValueError(f"{name}: has entries that are not finite")
        for low, high in (("lower", "upper"), ("row_lower", "row_upper")):
            below, above = getattr(self, low), getattr(self, high)
            wrong = ~((below <= above) & (below < np.inf) & (above > -np.inf))
            if wrong.any():
                i = int(wrong.argmax())
                raise ValueError(f"{low}[{i}], {high}[{i}]: {below[i]}, {above[i]} hold no number")


@dataclass(frozen=True, eq=False)
class LinearSolution:
    """What a solver found.

    x: (columns,); None if there is none.
    row_dual: (rows,) what one more unit of a row's side adds to the minimum; None if unknown.
    objective: cost @ x.
    bound: a proven lower bound of the minimum; -inf if there is none.
    seconds: wall time of the solve.
    setup_s: the part of `seconds` that it took to hand the program over.
    iterations: the solver's own count.
    """

    status: Status
    x: np.ndarray | None = None
    row_dual: np.ndarray | None = None
    objective: float = math.nan
    bound: float = -math.inf
    seconds: float = 0.0
    setup_s: float = 0.0
    iterations: int = 0

    @property
    def gap(self) -> float:
        """(objective - bound) / |objective|, at least 0."""
        return max(self.objective - self.bound, 0.0) / max(abs(self.objective), 1e-12)
