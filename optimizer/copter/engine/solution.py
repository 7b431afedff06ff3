"""What a solve found, by the names of its program."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...linear_program import Status
from . import blocks as lie
from .blocks import COLUMN, COLUMNS, ROW, ROWS
from .inputs import hashable


@dataclass(frozen=True)
class Outcome:
    """The result of a minimisation over slots: x (column slots,), y (row slots,), and what is known of them."""

    status: Status
    x: np.ndarray
    y: np.ndarray
    objective: float
    bound: float
    primal_residual: float
    dual_residual: float
    iterations: int
    seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """A solution. It stays as it is when the program changes.

    blocks: the number of each request.
    places: (numbers, 4) where each request lay (`blocks.py`).
    integral: (variables,) what a shim made of `values`; None without a shim.
    """

    outcome: Outcome
    maximise: bool
    blocks: Mapping[Hashable, int]
    places: np.ndarray
    capacities: Mapping[str, int]
    constraints: Mapping[str, int]
    integral: np.ndarray | None = None

    def __repr__(self) -> str:
        found = f"{self.status}, objective={self.objective:.6g}, bound={self.bound:.6g}"
        return f"Solution({found}, iterations={self.iterations}, seconds={self.seconds:.3g})"

    @property
    def status(self) -> Status:
        return self.outcome.status

    @property
    def objective(self) -> float:
        return 0.0 - self.outcome.objective if self.maximise else self.outcome.objective

    @property
    def bound(self) -> float:
        """A proven bound: no solution is below it, or above it if the program maximises. It may be infinite."""
        return 0.0 - self.outcome.bound if self.maximise else self.outcome.bound

    @property
    def gap(self) -> float:
        """|objective - bound| / |objective|; 0 if the (slightly infeasible) objective is beyond the bound."""
        if not math.isfinite(self.outcome.bound):
            return math.inf
        return max(self.outcome.objective - self.outcome.bound, 0.0) / max(abs(self.outcome.objective), 1e-12)

    @property
    def primal_residual(self) -> float:
        """|A x - nearest sides| / (1 + |sides|), Euclidean, or that of the worst row if it is larger.

        A single row counts relative to 1 + |its nearest side| + the sizes of its terms.
        """
        return self.outcome.primal_residual

    @property
    def dual_residual(self) -> float:
        """|reduced costs that point to an infinite bound| / (1 + |cost|), Euclidean, or that of the worst column.

        A hundredth of a single column's counts, relative to 1 + |its cost| + the sizes of its terms.
        """
        return self.outcome.dual_residual

    @property
    def iterations(self) -> int:
        """Iterations of conjugate gradients. A Newton system that is solved directly counts as one."""
        return self.outcome.iterations

    @property
    def seconds(self) -> float:
        return self.outcome.seconds

    @cached_property
    def values(self) -> np.ndarray:
        """(variables,) the values of all requests, in the order in which they were added."""
        return self._x_of(np.fromiter(self.blocks.values(), np.int64, len(self.blocks)))

    @cached_property
    def _slices(self) -> dict[Hashable, slice]:
        sizes = self.places[np.fromiter(self.blocks.values(), np.int64, len(self.blocks)), COLUMNS]
        ends = np.append(0, np.cumsum(sizes)).tolist()
        return {id: slice(ends[i], ends[i + 1]) for i, id in enumerate(self.blocks)}

    def of(self, id: Hashable) -> slice:
        """Return where the request's variables are in `values` and `integral`."""
        self._known(self.blocks, "request", id)
        return self._slices[id]

    def x(self, id: Hashable) -> np.ndarray:
        """Return (variables,) the values of one request."""
        self._known(self.blocks, "request", id)
        place = self.places[self.blocks[id]]
        return self.outcome.x[place[COLUMN] : place[COLUMN] + place[COLUMNS]]

    def of_all(self, ids: Sequence[Hashable]) -> np.ndarray:
        """Return (variables,) the values of some requests, one behind another."""
        try:
            numbers = np.fromiter(map(self.blocks.__getitem__, ids), np.int64, len(ids))
        except (KeyError, TypeError):
            for id in ids:
                self._known(self.blocks, "request", id)
            raise
        return self._x_of(numbers)

    def price(self, resource: str) -> float:
        """Return what one more unit of the resource adds to the objective."""
        self._known(self.capacities, "resource", resource)
        return self._dual(self.capacities[resource])

    def constraint_dual(self, name: str) -> float:
        """Return what one more unit of the constraint's side adds to the objective."""
        self._known(self.constraints, "constraint", name)
        return self._dual(self.constraints[name])

    def row_duals(self, id: Hashable) -> np.ndarray:
        """Return (rows,) what one more unit of the side of each of the request's rows adds to the objective."""
        self._known(self.blocks, "request", id)
        place = self.places[self.blocks[id]]
        duals = self.outcome.y[place[ROW] : place[ROW] + place[ROWS]]
        return 0.0 - duals if self.maximise else duals

    def with_integral(self, integral: np.ndarray) -> Solution:
        return replace(self, integral=integral)

    def _x_of(self, numbers: np.ndarray) -> np.ndarray:
        return np.asarray(self.outcome.x[lie.slots(self.places, numbers, COLUMN)])

    def _dual(self, slot: int) -> float:
        return float(0.0 - self.outcome.y[slot] if self.maximise else self.outcome.y[slot])

    @staticmethod
    def _known(among: Mapping[Any, object], what: str, name: Hashable) -> None:
        hashable(what, name)
        if name not in among:
            raise ValueError(f"{what} {name!r}: was not part of the program that was solved")
