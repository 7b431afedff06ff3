"""Prices of cells by slot: columns are generated until no option gains anything beyond them.

HiGHS keeps the columns and its basis, so that each further solve takes few pivots.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import highspy
import numpy as np

from ..highs import Highs, Method
from ..interrupts import InterruptsWait
from .pricing import best_of, bound_of, priced
from .problem import Floats, Ints, LeaseProblem


@dataclass(frozen=True, eq=False)
class Relaxed:
    """The relaxation: every plan brings at most `bound`.

    option, taken, part: (columns,), (columns, slots) and (columns,) what was generated, and how much is taken.
    """

    prices: Floats
    bound: float
    option: Ints
    taken: Ints
    part: Floats


def relaxed(problem: LeaseProblem, start: Floats | None, gap: float, until_s: float) -> Relaxed:
    """Return prices whose bound is within `gap` of the relaxation's optimum, or the best by `until_s`.

    Args:
        start: (limits, slots) prices to begin with, as those of the last round; None: 0.
        until_s: by `time.perf_counter`.
    """
    prices = np.zeros_like(problem.capacity) if start is None else start
    best_prices, bound = prices, np.inf
    options: list[Ints] = []
    leases: list[Ints] = []
    master = _Master(problem)
    value, previous = 0.0, prices
    while True:
        found = priced(problem, prices)
        option, most = best_of(problem, found.gain)
        here = bound_of(problem, most, prices)
        if here < bound:
            bound, best_prices = here, prices
        rows = np.flatnonzero(option >= 0)
        fresh = master.fresh(option[rows], found.taken[option[rows]])
        chosen = option[rows][fresh]
        if len(chosen):
            options.append(chosen)
            leases.append(found.taken[chosen])
            master.add(chosen, found.taken[chosen])
        smoothed = prices is not previous
        if not len(chosen) and not smoothed:
            break
        if len(chosen) or value == 0.0:
            value, dual = master.solve()
        if bound - value <= gap * max(abs(value), 1e-9) or time.perf_counter() > until_s:
            break
        # Prices half way to the best ones so far swing less than the master's own.
        previous = dual
        prices = 0.5 * best_prices + 0.5 * dual if len(chosen) else dual
    made = np.concatenate(options) if options else np.zeros(0, np.int64)
    taken = np.concatenate(leases) if leases else np.zeros((0, len(problem.length)), np.int64)
    return Relaxed(best_prices, bound, made, taken, master.parts(len(made)))


class _Master:
    """The linear program over the columns so far: rows take at most one, and room is not exceeded."""

    def __init__(self, problem: LeaseProblem) -> None:
        self._problem = problem
        self._highs = Highs(Method.SIMPLEX, presolve=False).solver()
        self._limits = problem.room.size
        self._seen: set[bytes] = set()
        upper = np.concatenate([np.ones(problem.rows), problem.room.ravel()])
        none = np.zeros(0, np.int32)
        lower = np.full(len(upper), -highspy.kHighsInf)
        self._highs.addRows(len(upper), lower, upper, 0, np.zeros(len(upper), np.int32), none, np.zeros(0))

    def fresh(self, option: Ints, taken: Ints) -> np.ndarray:
        """Return (columns,) whether each is new, and note it."""
        found = np.zeros(len(option), bool)
        for i, (one, leases) in enumerate(zip(option.tolist(), taken.astype(np.int16), strict=True)):
            key = one.to_bytes(8, "little") + leases.tobytes()
            if key not in self._seen:
                self._seen.add(key)
                found[i] = True
        return found

    def add(self, option: Ints, taken: Ints) -> None:
        """Take up columns."""
        problem, count = self._problem, len(option)
        worth = problem.worth[option] + problem.first[option] * (taken[:, 0] > 0)
        amounts = (problem.usage[option][:, :, None] * taken[:, None, :]).reshape(count, -1)
        column, place = np.nonzero(amounts)
        per = np.bincount(column, minlength=count) + 1
        starts = np.concatenate([[0], np.cumsum(per)[:-1]])
        index, values = np.empty(int(per.sum()), np.int32), np.ones(int(per.sum()))
        index[starts] = problem.row[option]
        others = np.ones(len(index), bool)
        others[starts] = False
        index[others] = problem.rows + place
        values[others] = amounts[column, place]
        self._highs.addCols(
            count, -worth, np.zeros(count), np.full(count, highspy.kHighsInf), len(index),
            starts.astype(np.int32), index, values,
        )  # fmt: skip

    def solve(self) -> tuple[float, Floats]:
        """Return the optimum over the columns, and the prices of limits by slot."""
        with InterruptsWait():
            self._highs.run()
        dual = np.asarray(self._highs.getSolution().row_dual)[self._problem.rows :]
        value = -float(self._highs.getInfo().objective_function_value)
        return value, np.maximum(-dual, 0.0).reshape(self._problem.room.shape)

    def parts(self, count: int) -> Floats:
        """Return (columns,) how much of each is taken."""
        if not count:
            return np.zeros(0)
        found = np.asarray(self._highs.getSolution().col_value)
        return found if len(found) == count else np.zeros(count)
