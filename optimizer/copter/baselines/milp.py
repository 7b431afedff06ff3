"""Solves an allocation problem exactly, from nothing: the LP relaxation by HiGHS, rounded, then branch and bound.

    maximise    sum over rows r, columns c of value[r, c] * x[r, c]
    subject to  sum over c of x[r, c] <= 1 (= 1 where required),   usage @ (sum over r of x[r, :]) <= capacity,
                x binary, and 0 where not allowed

This is Sia's program (equation 3.4) and that of every policy of its kind: a multiple-choice knapsack with many
rows and few limits. A vertex of its LP relaxation has at most as many fractional rows as there are limits.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from ...allocation.candidates import Candidates
from ...allocation.exact import close_gap, serve_required
from ...allocation.problem import TOLERANCE, ChoiceProblem, ChoiceSolution
from ...allocation.units import limit_units, unit_of
from ...highs import Highs
from ...linear_program import Status


def solve(problem: ChoiceProblem, time_limit_s: float = 10.0, gap: float = 1e-4) -> ChoiceSolution:
    """Return the best plan found within `time_limit_s`, to a relative gap. Without any time it is a greedy one.

    If the required rows do not all fit, as many as possible are served, and earlier ones before later ones.
    """
    start_s = time.perf_counter()
    problem, gain, limit = _counted(problem)
    required = np.zeros(len(problem.value), bool) if problem.required is None else problem.required
    options = candidates_of(problem, required)
    base, unmet = serve_required(options, time_limit_s)
    if unmet:
        required = required.copy()
        required[list(unmet)] = False
        options = replace(options, required=required)
    prices, relaxed = _relax(options, base, start_s + time_limit_s - time.perf_counter())
    plan, bound = max(options.filled(base), relaxed, key=options.value), options.dual(prices)[2]
    plan, bound = close_gap(options, prices, plan, bound, gap, start_s + time_limit_s - time.perf_counter())
    value, choice = options.value(plan), options.choice(plan)
    bound = max(bound, value)
    relative = (bound - value) / max(abs(bound), TOLERANCE)
    seconds = time.perf_counter() - start_s
    return ChoiceSolution(
        choice,
        value * gain,
        bound * gain,
        relative,
        prices * gain / limit,
        relative <= gap + TOLERANCE,
        tuple(i for i in unmet if choice[i] < 0),  # others got what was left
        seconds,
        seconds,
        len(options),
    )


def _counted(problem: ChoiceProblem) -> tuple[ChoiceProblem, float, np.ndarray]:
    """Return the problem in units in which its numbers are about 1, the unit of gains, and those of limits."""
    most = np.abs(problem.value).max(axis=1, initial=0.0, where=problem.allowed)
    kinds, limits, columns = problem.usage_by_kind.shape
    gain = unit_of(float(most.mean()) if len(most) else 0.0)
    limit = limit_units(problem.usage_by_kind.transpose(1, 0, 2).reshape(limits, kinds * columns))
    usage, capacity = problem.usage / limit[:, None], problem.capacity / limit
    return replace(problem, value=problem.value / gain, usage=usage, capacity=capacity), gain, limit


def serve(problem: ChoiceProblem) -> tuple[int, ...]:
    """Return the required rows that have to go without, the last ones first. Earlier rows are served first."""
    problem, _, _ = _counted(problem)
    required = np.zeros(len(problem.value), bool) if problem.required is None else problem.required
    return serve_required(candidates_of(problem, required), np.inf)[1]


def candidates_of(problem: ChoiceProblem, required: np.ndarray) -> Candidates:
    """Return the allowed options that fit, gain more than nothing, and are not dominated.

    An option is dominated by another one of its row that takes no more of anything and gains as much. Usages of
    one GPU type form a chain as a rule. There a running maximum finds the dominated options.
    """
    usage = problem.usage_by_kind
    keep = np.zeros(problem.allowed.shape, bool)
    for kind in range(len(usage)):
        rows = np.flatnonzero(problem.kinds == kind)
        fits = (usage[kind] <= problem.capacity[:, None] + TOLERANCE).all(axis=0)
        open_ = problem.allowed[rows] & fits & ((problem.value[rows] > 0) | required[rows, None])
        keep[rows] = open_ & _undominated(np.where(open_, problem.value[rows], -np.inf), usage[kind])
    row, column = np.nonzero(keep)
    return Candidates(
        row, column, problem.value[row, column], problem.usage_of(row, column), required, problem.capacity
    )


def _undominated(value: np.ndarray, usage: np.ndarray) -> np.ndarray:
    """Return (rows, columns) whether every column that takes no more is worth less.

    `value` is -inf where a row has no option.
    """
    keep = np.zeros(value.shape, bool)
    group = np.where((usage > 0).any(axis=0), (usage > 0).argmax(axis=0), -1)
    for g in np.unique(group):
        columns = np.flatnonzero(group == g)
        columns = columns[np.argsort(usage[:, columns].sum(axis=0), kind="stable")]
        if (np.diff(usage[:, columns], axis=1) >= 0).all():
            seen = np.maximum.accumulate(value[:, columns], axis=1)
            keep[:, columns[0]] = True
            keep[:, columns[1:]] = value[:, columns[1:]] > seen[:, :-1]
        else:
            for i, c in enumerate(columns):
                below = columns[:i][(usage[:, columns[:i]] <= usage[:, [c]]).all(axis=0)]
                keep[:, c] = value[:, c] > value[:, below].max(axis=1, initial=-np.inf)
    return keep


def _relax(options: Candidates, base: np.ndarray, time_limit_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Return prices and the rounded plan of the LP relaxation; prices of 0 and `base` if there is no time."""
    if not len(options) or time_limit_s <= 0:
        return np.zeros(len(options.capacity)), base
    program, rows = options.linear_program(integer=False)
    found = Highs(time_limit_s=max(time_limit_s, 1e-3), presolve=False).solve(program)
    if found.status is not Status.OPTIMAL or found.x is None or found.row_dual is None:
        return np.zeros(len(options.capacity)), base
    plan = np.full(len(options.required), -1, np.int64)
    whole = np.flatnonzero(found.x > 1 - 1e-6)
    plan[options.row[whole]] = whole
    slack = options.capacity - options.used(plan)
    # Each of the few fractional rows takes the option of most weight in the LP, if that fits.
    split = np.flatnonzero((found.x > 1e-6) & (found.x <= 1 - 1e-6))
    for k in split[np.argsort(-found.x[split], kind="stable")]:
        if plan[options.row[k]] < 0 and (options.usage[:, k] <= slack + TOLERANCE).all():
            plan[options.row[k]] = k
            slack -= options.usage[:, k]
    plan = base if (plan[options.required] < 0).any() else plan
    return np.maximum(-found.row_dual[len(rows) :], 0.0), options.filled(plan)
