"""Branch and bound by HiGHS over what prices leave open, for small programs with the terms of teams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from ...optimizer.allocation.options import Floats, Ints
from ...optimizer.highs import Highs, Method
from ...optimizer.linear_program import LinearProgram, Status
from .dual import Prices, best, bound, net_gain
from .options import EQUAL, NOTHING, TeamOptions, Terms

_FEASIBILITY = 1e-9


def linear_program(
    options: TeamOptions, terms: Terms, short: float = 0.0, least_short: bool = False
) -> LinearProgram:
    """Return the program with a column for each option, and one for what each floor lacks if any may lack.

    Args:
        short: the most that floors may lack together.
        least_short: minimise what floors lack together, rather than maximise the gain.
    """
    n, rows, limits = len(options.row), options.rows, len(options.capacity)
    caps = np.flatnonzero(np.isfinite(terms.cap))
    floors = np.flatnonzero(terms.floor > 0)
    lacks = len(floors) if short > 0 or least_short else 0
    at_cap, at_floor = np.full(options.places + 1, -1), np.full(options.places + 1, -1)
    at_cap[caps], at_floor[floors] = np.arange(len(caps)), np.arange(len(floors))
    first = np.cumsum([0, rows, limits, len(caps), len(floors)])
    k, limit = np.nonzero(options.usage)
    parts = [(options.row, np.arange(n), np.ones(n)), (first[1] + limit, k, options.usage[k, limit])]
    for place, amount, begin, at in (
        (options.place, options.gpus, first[2], at_cap),
        (options.place, options.gpus, first[3], at_floor),
        (terms.elsewhere, terms.covers, first[3], at_floor),
    ):
        some = np.flatnonzero(at[place] >= 0)
        parts.append((begin + at[place[some]], some, amount[some]))
    lower = np.concatenate(
        [np.where(options.required, 1.0, -np.inf), np.full(limits + len(caps), -np.inf), terms.floor[floors]]
    )
    upper = np.concatenate([np.ones(rows), options.capacity, terms.cap[caps], np.full(len(floors), np.inf)])
    if lacks:
        parts.append((first[3] + np.arange(lacks), n + np.arange(lacks), np.ones(lacks)))
        if not least_short:
            parts.append((np.full(lacks, first[4]), n + np.arange(lacks), np.ones(lacks)))
            lower, upper = np.append(lower, -np.inf), np.append(upper, short)
    row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    matrix = sparse.csr_array((value, (row, column)), shape=(len(lower), n + lacks))
    cost = np.concatenate([np.zeros(n) if least_short else -options.gain, np.full(lacks, float(least_short))])
    most = np.concatenate([np.ones(n), terms.floor[floors][:lacks]])
    whole = np.arange(n + lacks) < n
    return LinearProgram(cost, matrix, lower, upper, np.zeros(n + lacks), most, whole)


def relaxed(options: TeamOptions, terms: Terms, time_limit_s: float) -> tuple[Prices, Ints] | None:
    """Return the prices of the linear relaxation, and what it gives whole; None where nothing keeps all terms."""
    program = linear_program(options, terms)
    program = replace(program, upper=np.full(len(program.cost), np.inf), integer=None)
    found = Highs(Method.SIMPLEX, time_limit_s=max(time_limit_s, 1e-3)).solve(program)
    if found.x is None or found.row_dual is None or found.status is Status.INFEASIBLE:
        return None
    caps = np.flatnonzero(np.isfinite(terms.cap))
    floors = np.flatnonzero(terms.floor > 0)
    _, limit, over, under = np.split(found.row_dual, np.cumsum([options.rows, len(options.capacity), len(caps)]))
    prices = Prices(np.maximum(-limit, 0.0), np.zeros(options.places + 1), np.zeros(options.places + 1))
    prices.over[caps], prices.under[floors] = np.maximum(-over, 0.0), np.maximum(under, 0.0)
    plan, whole = np.full(options.rows, NOTHING), np.flatnonzero(found.x > 0.5)
    plan[options.row[whole]] = whole
    return prices, plan


def fewest_short(options: TeamOptions, terms: Terms, time_limit_s: float) -> tuple[float, Ints] | None:
    """Return the least that floors must lack together, and a plan that lacks no more; None: not found in time."""
    found = _solve(linear_program(options, terms, least_short=True), options, time_limit_s, 1e-6, None)
    if found is None:
        return None
    return max(float(terms.short(options, found[0]).sum()), 0.0), found[0]


def close(
    options: TeamOptions, terms: Terms, prices: Prices, plan: Ints, short: float, gap: float, time_limit_s: float
) -> tuple[Ints, float]:
    """Return a plan at least as good as `plan`, and a bound of all plans, at most `gap` apart if time allows.

    An option whose reduced cost exceeds what `plan` is short of the bound is in no better plan.

    Args:
        short: what floors may lack together; `plan` lacks no more.
    """
    net = net_gain(options, terms, prices)
    worth, _ = best(options, net)
    top, value = bound(options, terms, prices, worth), options.value(plan)
    wanted = gap * max(min(abs(top), abs(value)), EQUAL)
    if short <= 0:
        if top - value <= wanted:
            return plan, top
        keep = worth[options.row] - net <= top - value + EQUAL
        keep[plan[plan >= 0]] = True
        open_ = options.only(keep, options.required)
        own = Terms(terms.cap, terms.floor, terms.elsewhere[keep], terms.covers[keep])
    else:
        keep, open_, own, top = np.ones(len(options.row), bool), options, terms, np.inf
    place = np.full(len(keep), NOTHING)
    place[keep] = np.arange(int(keep.sum()))
    start = np.where(plan >= 0, place[plan], NOTHING)
    found = _solve(
        linear_program(open_, own, short + (1e-7 if short else 0.0)), open_, time_limit_s, wanted, start
    )
    if found is None:
        return plan, top
    better = np.where(found[0] >= 0, np.flatnonzero(keep)[found[0]], NOTHING)
    fits = (
        (options.used(better) <= options.capacity + 1e-6).all()
        and not terms.over(options, better).any()
        and terms.short(options, better).sum() <= short + 1e-6
    )
    high = min(top, max(found[1], value))
    return (better if fits and options.value(better) > value else plan), high


def _solve(
    program: LinearProgram, options: TeamOptions, time_limit_s: float, absolute_gap: float, start: Ints | None
) -> tuple[Ints, float] | None:
    """Return a plan and a bound of the gain; None if nothing was found in time."""
    solver = Highs(
        Method.EXACT,
        time_limit_s=max(time_limit_s, 1e-3),
        gap=1e-12,
        absolute_gap=max(absolute_gap, 1e-7),
        feasibility=_FEASIBILITY,
    )
    point: Floats | None = None
    if start is not None and len(program.cost) == len(options.row):
        point = np.zeros(len(options.row))
        point[start[start >= 0]] = 1.0
    found = solver.solve(program, point)
    if found.status is Status.INFEASIBLE or found.x is None:
        return None
    plan = np.full(options.rows, NOTHING)
    chosen = np.flatnonzero(found.x[: len(options.row)] > 0.5)
    plan[options.row[chosen]] = chosen
    return plan, -found.bound
