"""Solving a choice program: prices, the LP's vertex, what is whole of it, and a search over what is not."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from .exact import SLACK, branch
from .near import SETTLED, Memory, Near, box, everywhere
from .plan import fill, is_left, objective, take_again, take_best
from .prices import find_prices
from .problem import TOLERANCE
from .refine import refine
from .rows import NOTHING, Columns, Floats, Ints, dual_value
from .simplex import Entering, cheapest_growth, from_plan, nothing_first, optimise, those_before, torn_rows
from .snapshot import Snapshot

# Rows that are searched where the plan at hand is not good enough, how many of them would make the same change,
# and combinations that are kept: first among rows that are open very near the prices, then among all, one search
# after the other. The later ones, which take longest, are left out where the plan is as near to its bound as the
# last number, in programs of many rows or if that is `_FAR`.
_FIRST_SEARCH = (24, 2, 128)
_FAR = 1e-3
_SEARCHES = (
    (40, 1, 256, 0.0),
    (40, 2, 512, 0.0),
    (64, 1, 1024, 5e-4),
    (128, 1, 2048, _FAR),
    (128, 4, 2048, _FAR),
    (48, 8, 4096, _FAR),
)
_MANY_ROWS = 256
# How far prices are expected to go, as a part of them: this many times as far as at last, within limits; and from
# the smoothed dual's to the vertex.
_AHEAD, _LEAST_REACH, _MOST_REACH, _SMALL_REACH = 3.0, 0.02, 0.15, 0.01
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


def solve(snapshot: Snapshot, memory: Memory, base: Ints | None, gap: float, time_limit_s: float) -> Found:
    """The best plan found, to a relative gap; no search is begun after the time limit.

    memory: of the last solve; that of this one is written into it. base: picks that serve the required rows, None:
    there are no such rows.
    """
    start_s = time.perf_counter()
    near, prices, passes = _first_prices(snapshot, memory)
    picks, nearest, prices, dual, torn, pivots = _vertex(snapshot, memory, near, prices, base, gap)
    _make_whole(snapshot, near, prices, picks, torn, base)
    value, bound = _search(snapshot, near, nearest, prices, dual, picks, torn, gap, start_s + time_limit_s)
    left_s = start_s + time_limit_s - time.perf_counter()
    wanted = gap * min(abs(bound), abs(value))
    if bound - value > wanted + TOLERANCE and left_s > 0 and snapshot.options <= _MOST_FOR_HIGHS:
        value, bound = branch(snapshot, picks, value, bound, gap, min(left_s, _MOST_HIGHS_S))
    memory.prices = prices
    return Found(picks, value, max(bound, value), prices, passes, pivots)


def _first_prices(snapshot: Snapshot, memory: Memory) -> tuple[Near, Floats, int]:
    """Prices near the optimum's, the rows that are open near them, and passes over rows."""
    columns = snapshot.columns
    count = max(len(snapshot.rows.order), 1)
    every = everywhere(snapshot)
    passes = 0
    if memory.prices is None or not memory.prices.any():
        free = snapshot.rows._replace(required=np.zeros_like(snapshot.rows.required))
        zero = np.zeros(len(snapshot.capacity))
        memory.worth = dual_value(free, columns, snapshot.capacity, zero) / count
        memory.worth = memory.worth if memory.worth > TOLERANCE else 1.0
        prices = np.full(len(snapshot.capacity), memory.typical(snapshot))
        passes += _improve(every, columns, memory.worth, count, prices, _COLD_WIDTH)
        return memory.near(snapshot, prices, _LEAST_REACH), prices, passes
    before = memory.prices
    prices = before.copy()
    near = memory.near(snapshot, prices, min(max(_AHEAD * memory.moved, _LEAST_REACH), _MOST_REACH))
    passes += _improve(near, columns, memory.worth, count, prices, _WIDTH)
    if not near.holds(prices):
        passes += _improve(every, columns, memory.worth, count, prices, _WIDTH)
        near = memory.near(snapshot, prices, _LEAST_REACH)
    memory.moved = float(
        (np.abs(prices - before) / np.maximum(prices + memory.typical(snapshot), TOLERANCE)).max()
    )
    memory.worth = max(abs(near.dual(columns, prices)) / count, TOLERANCE)
    return near, prices, passes


def _improve(near: Near, columns: Columns, worth: float, count: int, prices: Floats, width: float) -> int:
    enough = _ENOUGH * worth * count
    given = (near.rows, columns, near.room, near.low, near.high, prices)
    return find_prices(*given, width * worth, _WIDTH * worth, enough)


def _vertex(
    snapshot: Snapshot, memory: Memory, near: Near, prices: Floats, base: Ints | None, gap: float
) -> tuple[Ints, Near, Floats, float, Ints, int]:
    """The LP's optimum: its keys as picks, rows open around it, prices, value, torn rows; and pivots."""
    columns, capacity = snapshot.columns, snapshot.capacity
    # A little more than the capacity, by amounts unlike each other, so that no two basic variables tie.
    lift: Floats = _LIFT * (1.0 + np.arange(len(capacity), dtype=np.float64) * _GOLDEN % 1.0)
    picks = np.where(snapshot.state == SETTLED, snapshot.settled, NOTHING)
    nearest = near.nearer(columns, *box(prices, _SMALL_REACH, memory.typical(snapshot)), picks)
    every = everywhere(snapshot)
    levels = [nearest, near, every]
    room = nearest.room + lift
    if (nearest.room < 0.0).any():
        levels, picks, room = [every], snapshot.no_picks(), capacity + lift
    rows = levels[0].rows
    again = memory.moved < _SMALL_REACH and memory.basic is not None
    if again:
        rows = rows._replace(order=take_again(rows, columns, snapshot.key, picks, room))
    take_best(rows, columns, prices, picks, room)
    if base is not None and _unserved(snapshot, picks):
        levels = [every]
        picks, room = _around(snapshot, prices, base, lift)
    basis = from_plan(picks, room)
    dual = near.dual(columns, prices)
    if again and memory.basic is not None:
        first = those_before(snapshot.rows, memory.basic, snapshot.key)
    else:
        first = cheapest_growth(levels[0].rows, columns, basis, prices)
    enough = _LEFT * gap * max(dual, 0.0)
    pivots, better = 0, prices
    for level in levels:
        most = _PIVOTS * len(snapshot.rows.order)
        _, more = optimise(level.rows, columns, basis, first, _TOLERANCE, enough, most)
        pivots, first = pivots + more, nothing_first()
        better = np.maximum(basis.prices, 0.0)
        if level.holds(better):
            break
    memory.basic = Entering(basis.row, basis.pick)
    snapshot.key[levels[0].rows.order] = picks[levels[0].rows.order]
    found_dual = level.dual(columns, better)
    if found_dual < dual:
        prices, dual = better, found_dual
    return picks, level, prices, dual, torn_rows(basis), pivots


def _make_whole(
    snapshot: Snapshot, near: Near, prices: Floats, picks: Ints, torn: Ints, base: Ints | None
) -> None:
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
    _fill(snapshot, near, prices, picks, room)


def _fill(snapshot: Snapshot, near: Near, prices: Floats, picks: Ints, room: Floats) -> None:
    """Give away what is left: to rows that are open near the prices first, which mostly is enough."""
    columns, all_rows = snapshot.columns, snapshot.everything
    few = all_rows._replace(order=near.rows.order)
    fill(few, columns, prices, picks, room, TOLERANCE, _FILL_ROUNDS)
    if len(near.rows.order) < len(all_rows.order) and is_left(columns, prices, room):
        fill(all_rows, columns, prices, picks, room, TOLERANCE, _FILL_ROUNDS)


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
    snapshot: Snapshot,
    near: Near,
    nearest: Near,
    prices: Floats,
    dual: float,
    picks: Ints,
    torn: Ints,
    gap: float,
    until_s: float,
) -> tuple[float, float]:
    """(objective, bound) after as many searches as are needed; better plans are written to `picks`."""
    everything, columns, capacity = snapshot.everything, snapshot.columns, snapshot.capacity
    count, bound, value = len(everything.order), dual, objective(snapshot.rows, picks)
    # A first search that can look at every row costs so little that it goes for the very optimum.
    exact = count <= _SEARCHES[0][0]
    wanted = gap * min(abs(bound), abs(value))
    if not exact and bound - value > wanted + TOLERANCE and time.perf_counter() < until_s:
        value = _search_near(snapshot, near, nearest, prices, dual, value, picks, torn, wanted)
    for search in _SEARCHES:
        far = search[3] if count > _MANY_ROWS or search[3] == _FAR else 0.0
        wanted = 0.0 if exact else max(gap, far) * min(abs(bound), abs(value))
        exact = False
        if bound - value <= wanted + TOLERANCE or time.perf_counter() > until_s:
            break
        # A plan that falls short by `wanted` will do; that none falls short by the rest proves this one.
        budget = max(dual - value - wanted, wanted)
        found, left_out = refine(everything, columns, capacity, prices, picks, torn, budget, wanted, *search[:3])
        if found < np.inf:
            _fill(snapshot, near, prices, picks, snapshot.room(picks))
        value = objective(snapshot.rows, picks)
        # Plans that were left out fall short of the dual by that much; the others are no better than this one.
        bound = max(value, min(bound, dual - min(left_out, budget)))
    return value, bound


def _search_near(
    snapshot: Snapshot,
    near: Near,
    nearest: Near,
    prices: Floats,
    dual: float,
    value: float,
    picks: Ints,
    torn: Ints,
    wanted: float,
) -> float:
    """Search among the rows that are open very near the prices, all others as they are; returns the objective."""
    columns = snapshot.columns
    rows = nearest.rows
    few = snapshot.everything._replace(order=rows.order)
    others = picks.copy()
    others[rows.order] = NOTHING
    room = snapshot.room(others)
    # What the others lose for good.
    lost = dual - value - (dual_value(rows, columns, room, prices) - objective(rows, picks))
    enough = wanted - lost
    if enough > 0.0:
        budget = max(dual - value - wanted - lost, enough)
        found, _ = refine(few, columns, room, prices, picks, torn, budget, enough, *_FIRST_SEARCH)
        if found < np.inf:
            _fill(snapshot, near, prices, picks, snapshot.room(picks))
            return objective(snapshot.rows, picks)
    return value
