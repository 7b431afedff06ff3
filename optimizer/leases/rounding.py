"""A whole plan from the relaxation: columns that are taken most come first, then whatever finds room."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .master import Relaxed
from .pricing import priced
from .problem import NOTHING, Floats, Ints, LeaseProblem


def rounded(problem: LeaseProblem, found: Relaxed, first: Sequence[int] = ()) -> tuple[Ints, Ints]:
    """Return (rows,) options and (rows, slots) leases of a plan that fits.

    Rows of which much is taken come first, then those that gain most at the prices. Each takes its column, or else
    the option that brings most in slots with room, the cheapest of these.

    first: rows that come before all others, in this order.
    """
    cost = problem.usage @ found.prices
    cost[:, 0] -= problem.first
    gain = priced(problem, found.prices).gain
    part = np.zeros(problem.rows)
    column = np.full(problem.rows, NOTHING)
    for at in np.argsort(found.part, kind="stable").tolist():
        if found.part[at] > 1e-6:
            row = problem.row[found.option[at]]
            part[row], column[row] = found.part[at], at
    most = np.full(problem.rows, -np.inf)
    np.maximum.at(most, problem.row, gain)
    option, taken = np.full(problem.rows, NOTHING), np.zeros((problem.rows, len(problem.length)), np.int64)
    left = problem.room.copy()
    starts = np.searchsorted(problem.row, np.arange(problem.rows + 1)).tolist()
    turn = np.full(problem.rows, len(first))
    turn[list(first)] = np.arange(len(first))
    for row in np.lexsort((-most, -part, turn)).tolist():
        at = int(column[row])
        if at >= 0:
            used = problem.usage[found.option[at]][:, None] * found.taken[at][None, :]
            if (used <= left + 1e-9).all():
                left -= used
                option[row], taken[row] = found.option[at], found.taken[at]
                continue
        _fill(problem, range(starts[row], starts[row + 1]), row, left, cost, option, taken)
    return option, taken


def pulled(problem: LeaseProblem, option: Ints, taken: Ints) -> Ints:
    """Return (rows, slots) leases of the same options, one of each moved to the slot that begins now if it gains.

    The largest come first, and each gives up its last lease for it.
    """
    found = taken.copy()
    rows = np.flatnonzero((option >= 0) & (found[:, 0] == 0))
    rows = rows[(problem.first[option[rows]] > 0) & (problem.most[option[rows], 0] > 0)]
    left = problem.room[:, 0] - problem.usage[option[option >= 0]].T @ found[option >= 0, 0]
    for row in sorted(rows.tolist(), key=lambda one: -float(problem.usage[option[one]].sum())):
        usage = problem.usage[option[row]]
        if (usage <= left + 1e-9).all():
            left -= usage
            found[row, np.flatnonzero(found[row])[-1]] -= 1
            found[row, 0] = 1
    return found


def _fill(
    problem: LeaseProblem, options: range, row: int, left: Floats, cost: Floats, option: Ints, taken: Ints
) -> None:
    """Give a row the option that brings most of those that find room, and take that room."""
    for at in sorted(options, key=lambda one: -problem.worth[one]):
        leases = in_room(problem, at, left, cost[at])
        if leases is not None:
            left -= problem.usage[at][:, None] * leases[None, :]
            option[row], taken[row] = at, leases
            return


def in_room(problem: LeaseProblem, at: int, left: Floats, cost: Floats) -> Ints | None:
    """Return (slots,) the leases of an option in its cheapest slots with room; None: there is too little.

    left: (limits, slots) room that is left. cost: (slots,) of one lease of the option.
    """
    if not problem.possible[at]:
        return None
    usage = problem.usage[at]
    takes = usage > 0
    free = problem.most[at]
    if takes.any():
        fitting = np.floor((left[takes] / usage[takes][:, None]).min(axis=0) + 1e-9).astype(np.int64)
        free = np.minimum(free, np.maximum(fitting, 0))
    needed = int(problem.leases[at])
    if free.sum() < needed:
        return None
    order = np.argsort(cost, kind="stable")
    sorted_free = free[order]
    before = np.cumsum(sorted_free) - sorted_free
    found = np.zeros_like(free)
    found[order] = np.clip(needed - before, 0, sorted_free)
    return found
