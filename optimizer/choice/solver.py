"""Solving a choice program: prices, the LP's vertex, what is whole of it, and a search over what is not."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from .exact import SLACK, branch
from .plan import fill, objective, take_best
from .prices import find_prices
from .problem import TOLERANCE
from .refine import refine
from .rows import NOTHING, Floats, Ints, dual_value
from .simplex import from_plan, optimise, price_in, torn_rows
from .snapshot import Snapshot

# Rows that are searched where the plan at hand is not good enough, how many of them would make the same change,
# and combinations that are kept: one search after the other. The later ones, which take longest, are left out in a
# program of many rows that is as near to its bound as the last number.
_SEARCHES = ((40, 2, 256, 0.0), (40, 1, 512, 0.0), (64, 1, 512, 0.0), (64, 3, 1024, 5e-4), (128, 4, 2048, 1e-3))
_MANY_ROWS = 256
_COLD_WIDTH, _WIDTH = 0.3, 2e-3  # of the smoothed dual, in units of a row's worth
_ENOUGH = 1e-4  # of the dual, that a step must gain for the prices to be worth another
_LIFT, _GOLDEN, _TOLERANCE = 1e-6, 0.618, 1e-9
_PIVOTS = 50  # at most, a row
_LEFT = 0.01  # of the gap that is asked for, to be left to the LP's optimum
_FILL_ROUNDS = 20
# What the searches do not close HiGHS may, where options are so few, in so much time.
_MOST_FOR_HIGHS, _MOST_HIGHS_S = 2_000, 2.0


@dataclass(frozen=True, eq=False)
class Found:
    """picks: by row; objective <= optimum <= bound; prices: (limits,); passes over the rows, and pivots."""

    picks: Ints
    objective: float
    bound: float
    prices: Floats
    passes: int
    pivots: int


def solve(snapshot: Snapshot, before: Floats | None, base: Ints | None, gap: float, time_limit_s: float) -> Found:
    """The best plan found, to a relative gap; no search is begun after the time limit.

    before: prices of the last solve, None: there was none. base: picks that serve the required rows, None: there
    are no such rows.
    """
    start_s = time.perf_counter()
    prices, passes = _first_prices(snapshot, before)
    picks, prices, dual, torn, pivots = _vertex(snapshot, prices, base, gap)
    _make_whole(snapshot, prices, picks, torn, base)
    value, bound = _search(snapshot, prices, dual, picks, torn, gap, start_s + time_limit_s)
    left_s = start_s + time_limit_s - time.perf_counter()
    wanted = gap * min(abs(bound), abs(value))
    if bound - value > wanted + TOLERANCE and left_s > 0 and snapshot.options <= _MOST_FOR_HIGHS:
        value, bound = branch(snapshot, picks, value, bound, gap, min(left_s, _MOST_HIGHS_S))
    return Found(picks, value, max(bound, value), prices, passes, pivots)


def _first_prices(snapshot: Snapshot, before: Floats | None) -> tuple[Floats, int]:
    """Prices near the optimum's, and passes over the rows."""
    rows, columns, capacity = snapshot.rows, snapshot.columns, snapshot.capacity
    count = max(len(rows.order), 1)
    cold = before is None or not before.any()
    prices = np.zeros(len(capacity)) if before is None else before.copy()
    free = rows._replace(required=np.zeros_like(rows.required))
    unit = dual_value(free, columns, capacity, prices) / count
    unit = unit if unit > TOLERANCE else 1.0
    if cold:
        prices[:] = unit * count / max(float(capacity.sum()), 1.0)
    width = (_COLD_WIDTH if cold else _WIDTH) * unit
    passes = find_prices(rows, columns, capacity, prices, width, _WIDTH * unit, _ENOUGH * unit * count)
    return prices, passes


def _vertex(
    snapshot: Snapshot, prices: Floats, base: Ints | None, gap: float
) -> tuple[Ints, Floats, float, Ints, int]:
    """The LP's optimum: its keys as picks, its prices, its value, the rows that are torn in it; and pivots."""
    rows, columns, capacity = snapshot.rows, snapshot.columns, snapshot.capacity
    # A little more than the capacity, by amounts unlike each other, so that no two basic variables tie.
    lift: Floats = _LIFT * (1.0 + np.arange(len(capacity), dtype=np.float64) * _GOLDEN % 1.0)
    picks, room = snapshot.no_picks(), capacity + lift
    take_best(rows, columns, prices, picks, room)
    if base is not None and _unserved(snapshot, picks):
        picks, room = _around(snapshot, prices, base, lift)
    basis = from_plan(picks, room)
    dual = dual_value(rows, columns, capacity, prices)
    if not price_in(rows, columns, basis, prices):
        return picks, prices, dual, rows.order[:0], 0
    enough = _LEFT * gap * max(dual, 0.0)
    _, pivots = optimise(rows, columns, basis, _TOLERANCE, enough, _PIVOTS * len(rows.order))
    better = np.maximum(basis.prices, 0.0)
    found_dual = dual_value(rows, columns, capacity, better)
    if found_dual < dual:
        prices, dual = better, found_dual
    return picks, prices, dual, torn_rows(basis), pivots


def _make_whole(snapshot: Snapshot, prices: Floats, picks: Ints, torn: Ints, base: Ints | None) -> None:
    """A plan within the capacities: what is whole of the vertex, the torn rows anew, and what is left filled."""
    rows, columns = snapshot.rows, snapshot.columns
    picks[torn] = NOTHING
    room = snapshot.room(picks)
    if (room < -SLACK).any():  # what is whole fits with the little more only
        picks[:] = NOTHING
        room = snapshot.capacity.copy()
        take_best(rows, columns, prices, picks, room)
    else:
        take_best(rows._replace(order=np.sort(torn)), columns, prices, picks, room)
    if base is not None and _unserved(snapshot, picks):
        picks[:], room = _around(snapshot, prices, base, np.zeros(len(room)))
    fill(snapshot.everything, columns, prices, picks, room, TOLERANCE, _FILL_ROUNDS)


def _unserved(snapshot: Snapshot, picks: Ints) -> bool:
    order = snapshot.rows.order
    return bool((picks[order[snapshot.rows.required[order]]] == NOTHING).any())


def _around(snapshot: Snapshot, prices: Floats, base: Ints, lift: Floats) -> tuple[Ints, Floats]:
    """A plan in which the required rows have their picks of `base`, and what it leaves of the capacity."""
    picks = base.copy()
    room = snapshot.room(picks) + lift
    order = snapshot.rows.order
    others = snapshot.rows._replace(order=order[~snapshot.rows.required[order]])
    take_best(others, snapshot.columns, prices, picks, room)
    return picks, room


def _search(
    snapshot: Snapshot, prices: Floats, dual: float, picks: Ints, torn: Ints, gap: float, until_s: float
) -> tuple[float, float]:
    """(objective, bound) after as many searches as are needed; better plans are written to `picks`."""
    everything, columns, capacity = snapshot.everything, snapshot.columns, snapshot.capacity
    count, bound, value = len(everything.order), dual, objective(snapshot.rows, picks)
    for search in _SEARCHES:
        # A first search that can look at every row costs so little that it goes for the very optimum.
        exact = count <= search[0] and search is _SEARCHES[0]
        near = search[3] if count > _MANY_ROWS else 0.0
        wanted = 0.0 if exact else max(gap, near) * min(abs(bound), abs(value))
        if bound - value <= wanted + TOLERANCE or time.perf_counter() > until_s:
            break
        budget = dual - value - wanted
        found, left_out = refine(everything, columns, capacity, prices, picks, torn, budget, *search[:3])
        if found < np.inf:
            fill(everything, columns, prices, picks, snapshot.room(picks), TOLERANCE, _FILL_ROUNDS)
        value = objective(snapshot.rows, picks)
        # Plans that were left out fall short of the dual by that much; the others are no better than this one.
        bound = max(value, min(bound, dual - min(left_out, budget)))
    return value, bound
