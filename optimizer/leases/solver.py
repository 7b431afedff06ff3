"""Solves a round of leases: prices and a bound, a whole plan, and an exact end where that is small."""

from __future__ import annotations

import time

import numpy as np

from .master import relaxed
from .pricing import best_of, priced
from .printed import solved
from .problem import NOTHING, Floats, Ints, LeasePlan, LeaseProblem, check, value_of
from .rounding import pulled, rounded

EQUAL = 1e-9
SMALL = 6000  # whole numbers of a program that is solved exactly
SHARE = 0.6  # of the time, for prices


def solve(
    problem: LeaseProblem,
    *,
    gap: float = 0.0,
    time_limit_s: float = 1.0,
    prices: Floats | None = None,
    small: int = SMALL,
    last: Ints | None = None,
) -> LeasePlan:
    """Return a plan with its bound.

    Where time was too short for the gap, the last plan stays, with what fits beside it, if that is better.

    Args:
        gap: relative gap that is good enough.
        prices: (limits, slots) to begin with.
        small: whole numbers of the printed program up to which it is solved exactly.
        last: (rows,) options of the last plan; NOTHING: it had none that is an option now.
    """
    began = time.perf_counter()
    found = relaxed(problem, prices, min(max(gap / 4, 1e-7), 1e-3), began + SHARE * time_limit_s)
    option, taken = rounded(problem, found)
    taken = pulled(problem, option, taken)
    value = value_of(problem, option, taken)
    plan = LeasePlan(option, taken, value, max(found.bound, value), found.prices)
    if plan.bound - value <= gap * abs(value) + EQUAL:
        return plan
    plan = _closed(problem, plan, gap, began + time_limit_s, small)
    if last is None or plan.bound - plan.value <= gap * abs(plan.value) + EQUAL:
        return plan
    return _beside_last(problem, plan, last, (1 - SHARE) * time_limit_s)


def _beside_last(problem: LeaseProblem, plan: LeasePlan, last: Ints, time_limit_s: float) -> LeasePlan:
    """Return the better one of a plan, and of the last plan with the best of what fits beside it.

    Jobs of the last plan are given their leases by their deadlines, earliest first.
    """
    keep = last[problem.row] == NOTHING
    keep[last[last >= 0]] = True
    fixed = np.flatnonzero(last >= 0)
    first = fixed[np.argsort(problem.within[last[fixed]], kind="stable")].tolist()
    left = problem.only(keep)
    found = relaxed(left, plan.prices, 1e-3, time.perf_counter() + time_limit_s)
    option, taken = rounded(left, found, first)
    taken = pulled(left, option, taken)
    value = value_of(left, option, taken)
    if value <= plan.value + EQUAL:
        return plan
    option = np.where(option >= 0, np.flatnonzero(keep)[option], NOTHING)
    return LeasePlan(option, taken, value, max(plan.bound, value), plan.prices)


def _closed(problem: LeaseProblem, plan: LeasePlan, gap: float, until_s: float, small: int) -> LeasePlan:
    """Return the best plan of options that prices leave open, if that is a small program.

    An option whose price exceeds what it brings by more than `plan` is short of the bound is in no better plan.
    """
    gain = priced(problem, plan.prices).gain
    _, most = best_of(problem, gain)
    keep = most[problem.row] - gain <= plan.bound - plan.value + EQUAL
    keep[plan.option[plan.option >= 0]] = True
    open_ = problem.only(keep)
    numbers = len(open_.row) + len(np.unique(open_.shape)) * len(open_.length)
    left_s = until_s - time.perf_counter()
    if numbers > small or left_s <= 0:
        return plan
    place = np.cumsum(keep) - 1
    start = LeasePlan(
        np.where(plan.option >= 0, place[plan.option], -1), plan.taken, plan.value, plan.bound, plan.prices
    )
    better, said = solved(open_, left_s, gap=max(gap, 1e-9), start=start)
    bound = min(plan.bound, max(-said.bound, plan.value)) if said.bound > -np.inf else plan.bound
    if better is None or better.value <= plan.value + EQUAL:
        return LeasePlan(plan.option, plan.taken, plan.value, bound, plan.prices)
    option = np.where(better.option >= 0, np.flatnonzero(keep)[better.option], -1)
    if check(problem, option, better.taken):  # whole numbers only within HiGHS' tolerance
        return LeasePlan(plan.option, plan.taken, plan.value, bound, plan.prices)
    value = value_of(problem, option, better.taken)
    return LeasePlan(option, better.taken, value, max(bound, value), plan.prices)
