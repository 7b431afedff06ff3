"""Branch and bound by HiGHS over the options that reduced costs leave open, for small programs."""

from __future__ import annotations

import numpy as np

from ..highs import Highs, Method
from ..linear_program import Status
from .candidates import Candidates
from .options import Floats, Ints
from .problem import TOLERANCE

# HiGHS's own relative tolerance of 1e-6 is more of a limit of 35,000 than some columns take. Plans would not fit.
_FEASIBILITY = 1e-9
_LEAST_S, _MOST_S = 0.1, 10.0  # time to find which of the required rows can be served


def serve_required(options: Candidates, time_limit_s: float) -> tuple[Ints, tuple[int, ...]]:
    """Return a plan of the required rows alone, and the required rows that go without, the last ones first.

    As many rows as possible are served, and earlier rows before later ones. If a greedy plan does not serve all of
    them, HiGHS searches for half of the time limit, within 0.1 to 10 s.
    """
    plan = np.full(len(options.required), -1, np.int64)
    if not options.required.any():
        return plan, ()
    of_required = np.flatnonzero(options.required[options.row])
    alone, count = options.only(of_required), int(options.required.sum())
    ranks = np.cumsum(options.required) - 1
    # On ties the plan that takes less of the limits wins.
    size = alone.usage.sum(axis=0)
    weight = 2.0 - ranks[alone.row] / count**2 - 1e-3 * size / max(size.sum(initial=0.0), 1.0) / count
    optional = np.zeros_like(options.required)
    alone = Candidates(alone.row, alone.column, weight, alone.usage, optional, options.capacity)
    chosen = alone.filled(plan)
    if (chosen[options.required] < 0).any() and len(alone):
        found = _branch(alone, chosen, 0.0, min(max(time_limit_s / 2.0, _LEAST_S), _MOST_S))
        chosen = found[0] if found is not None else chosen
    served = chosen >= 0
    plan[served] = of_required[chosen[served]]
    return plan, tuple(int(r) for r in np.flatnonzero(options.required & ~served)[::-1])


def close_gap(
    options: Candidates, prices: Floats, plan: Ints, bound: float, gap: float, time_limit_s: float
) -> tuple[Ints, float]:
    """Return a plan at least as good as `plan`, and a bound of all plans, at most `gap` apart if time allows.

    Let `plan` be short of the Lagrangian bound by some amount. A better plan contains no option with a larger
    reduced cost than that, and leaves out no row that would lose more by it. Such options and rows are fixed.
    `prices` (limits,) >= 0 are multipliers of the limits, and `bound` is the best known bound of all plans.
    """
    reduced, idle, dual = options.dual(prices)
    bound, value = min(bound, dual), options.value(plan)
    # The gap is relative to the returned bound, which is nearer to 0 than the plan's value if that is negative.
    wanted = gap * min(abs(bound), abs(value) / (1.0 + gap))
    if bound - value <= wanted + TOLERANCE:
        return plan, bound
    rest, enough = dual - value - wanted + TOLERANCE, value + wanted
    kept = reduced <= rest
    kept[plan[plan >= 0]] = True  # HiGHS begins with this plan
    keep = np.flatnonzero(kept)
    must = options.required | ((idle > rest) & (plan >= 0))
    fixed_rows = must & (np.bincount(options.row[keep], minlength=len(must)) == 1)
    is_fixed = fixed_rows[options.row[keep]]
    fixed, open_ = keep[is_fixed], keep[~is_fixed]
    room = options.capacity - options.usage[:, fixed].sum(axis=1)
    if not len(open_) or (room < -TOLERANCE).any():
        return plan, min(bound, enough)  # nothing that is open improves on `plan` by more than the gap
    left = options.only(open_)
    left = Candidates(left.row, left.column, left.gain, left.usage, must & ~fixed_rows, np.maximum(room, 0.0))
    place = np.full(len(options), -1, np.int64)
    place[open_] = np.arange(len(open_))
    found = _branch(left, np.where(plan >= 0, place[plan], -1), wanted, time_limit_s)
    if found is None:
        return plan, bound
    part, part_bound = found
    bound = min(bound, max(part_bound + float(options.gain[fixed].sum()), enough))
    better = np.full(len(plan), -1, np.int64)
    better[options.row[fixed]] = fixed
    picked = part >= 0
    better[picked] = open_[part[picked]]
    return (better if options.value(better) > value else plan), bound


def _branch(
    options: Candidates, start: Ints, absolute_gap: float, time_limit_s: float
) -> tuple[Ints, float] | None:
    """Return a plan and a bound by branch and bound; None if nothing was found in time.

    If the program has no solution, as nothing in it is better, the plan is empty and the bound -inf.
    """
    if time_limit_s <= 0:
        return None
    program, _ = options.linear_program(integer=True)
    solver = Highs(
        Method.EXACT,
        time_limit_s=max(time_limit_s, 1e-3),
        gap=1e-12,
        absolute_gap=max(absolute_gap, 1e-6),
        feasibility=_FEASIBILITY,
    )
    point = np.zeros(len(options))
    point[start[start >= 0]] = 1.0
    found = solver.solve(program, point)
    plan = np.full(len(options.required), -1, np.int64)
    if found.status is Status.INFEASIBLE:
        return plan, -np.inf
    if found.x is None:
        return None
    chosen = np.flatnonzero(found.x > 0.5)
    plan[options.row[chosen]] = chosen
    # The bound also holds for plans that exceed a limit a little.
    return plan if options.fits(plan, 1e-6) else start, -found.bound
