"""A round in the form that other solvers want, dense or as a linear program, and what they find as a plan."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from ...allocation import ChoiceProblem, ChoiceProgram, ChoiceSolution
from ...allocation.listing import Entries
from ...linear_program import LinearProgram
from ..baselines import milp


def flat(program: ChoiceProgram, order: Sequence[str]) -> tuple[Entries, np.ndarray]:
    """Return the options of rows, and (limits, columns) what columns take, where every kind has its own columns.

    Column c of kind k is numbered k * columns + c. `plain` turns picks back.
    """
    entries, usage = program.entries(order), program.usage
    if usage.ndim == 2:
        return entries, usage
    kinds, limits, columns = usage.shape
    own = program.kinds(order)[entries.row] * columns + entries.column
    return replace(entries, column=own), usage.transpose(1, 0, 2).reshape(limits, kinds * columns)


def plain(choice: np.ndarray, program: ChoiceProgram) -> np.ndarray:
    """Return picks as columns of the program, for picks of columns that each kind has of its own."""
    return np.where(choice < 0, choice, choice % program.usage.shape[-1])


def dense(entries: Entries, usage: np.ndarray, capacity: np.ndarray, required: np.ndarray) -> ChoiceProblem:
    value = np.zeros((len(required), usage.shape[1]))
    allowed = np.zeros(value.shape, bool)
    value[entries.row, entries.column] = entries.gain
    allowed[entries.row, entries.column] = True
    return ChoiceProblem(value, allowed, usage, capacity, required)


def satisfiable(entries: Entries, required: np.ndarray, usage: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Return (rows,) which of the required jobs can all be served together. Earlier ones come first."""
    if not required.any():
        return required
    rows = np.flatnonzero(required)
    own = required[entries.row]
    alone = Entries(np.searchsorted(rows, entries.row[own]), entries.column[own], entries.gain[own])
    unmet = milp.serve(dense(alone, usage, capacity, np.ones(len(rows), bool)))
    can = required.copy()
    can[rows[list(unmet)]] = False
    return can


def linear_program(
    entries: Entries, rows: int, usage: np.ndarray, capacity: np.ndarray, required: np.ndarray, *, integer: bool
) -> LinearProgram:
    """Return the program that minimises the negative gain, with a variable per entry, and rows of jobs and limits.

    Args:
        required: (rows,) whether each job must pick something.
    """
    count, limits = len(entries.row), len(capacity)
    limit, entry = np.nonzero(usage[:, entries.column])
    row = np.concatenate([entries.row, rows + limit])
    column = np.concatenate([np.arange(count), entry])
    value = np.concatenate([np.ones(count), usage[limit, entries.column[entry]]])
    matrix = sparse.csr_array((value, (row, column)), shape=(rows + limits, count))
    lower = np.concatenate([np.where(required, 1.0, -np.inf), np.full(limits, -np.inf)])
    upper = np.concatenate([np.ones(rows), capacity])
    whole = np.ones(count, bool) if integer else None
    # In the LP only the job's row limits a variable. A bound of 1 beside it would share the row's dual.
    most = np.full(count, 1.0 if integer else np.inf)
    return LinearProgram(-entries.gain, matrix, lower, upper, np.zeros(count), most, whole)


@dataclass(frozen=True, eq=False)
class Reading:
    """A round as arrays. Reading it counts as time of solvers that cannot work on the program itself.

    asked: (jobs,) whether each must pick something.
    required: (jobs,) which of these can all be served together.
    """

    program: ChoiceProgram
    entries: Entries
    usage: np.ndarray
    capacity: np.ndarray
    asked: np.ndarray
    required: np.ndarray
    began_s: float

    @classmethod
    def of(cls, program: ChoiceProgram, order: Sequence[str]) -> Reading:
        began_s = time.perf_counter()
        (entries, usage), asked = flat(program, order), program.required(order)
        required = satisfiable(entries, asked, usage, program.capacity)
        return cls(program, entries, usage, program.capacity, asked, required, began_s)

    def linear_program(self, *, integer: bool) -> LinearProgram:
        return linear_program(
            self.entries, len(self.asked), self.usage, self.capacity, self.required, integer=integer
        )

    def plan(
        self, choice: np.ndarray, bound: float, prices: np.ndarray, gap: float, solver_s: float
    ) -> ChoiceSolution:
        value = objective(choice, self.entries)
        bound = max(bound, value) if len(self.entries.row) else value
        relative = (bound - value) / max(abs(bound), 1e-7) if np.isfinite(bound) else np.inf
        seconds = time.perf_counter() - self.began_s
        proven, without = relative <= gap + 1e-7, unmet(self.asked, choice)
        count = len(self.entries.row)
        choice = plain(choice, self.program)
        return ChoiceSolution(choice, value, bound, relative, prices, proven, without, seconds, solver_s, count)


def objective(choice: np.ndarray, entries: Entries) -> float:
    return float(entries.gain[choice[entries.row] == entries.column].sum())


def unmet(asked: np.ndarray, choice: np.ndarray) -> tuple[int, ...]:
    """Return the jobs that had to pick something but did not, the last ones first."""
    return tuple(np.flatnonzero(asked & (choice < 0))[::-1].tolist())


def picked(entries: Entries, x: np.ndarray | None, rows: int) -> np.ndarray:
    """Return (rows,) the columns that a solution of the integer program picks, -1 for none."""
    choice = np.full(rows, -1, np.int64)
    if x is not None:
        which = x > 0.5
        choice[entries.row[which]] = entries.column[which]
    return choice
