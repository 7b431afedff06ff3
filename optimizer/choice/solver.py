"""Solving a choice program: prices, the LP's vertex, what is whole of it, and a search over what is not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .at_prices import take_at
from .closing import FAR, close
from .exact import branch
from .mend import mend
from .near import REACH, SMALL_REACH, Memory, Near, Priced, everywhere, settled_picks
from .plan import objective, take_again, take_best
from .prices import find_prices
from .rows import Floats, Ints
from .search import Sought, is_within, search, search_briefly
from .simplex import Entering, cheapest_growth, from_plan, nothing_first, optimise, those_before, torn_rows
from .snapshot import Found, Snapshot
from .whole import around, make_whole, unserved

_COLD, _ROUGH, _FINE = 0.3, 5e-3, 1e-3  # widths of the smoothed dual, in units of a row's worth
_ENOUGH = 8e-3  # of a width, that a step must gain a row for the prices to be worth another
_NEAR_BY, _FAR_OFF = 0.1, np.inf  # by what part of a price a first step may go: from the last prices, from nothing
_BY_ROUGH = 2.5e-4  # a gap that a plan at rough prices may keep
_LIFT, _GOLDEN, _TOLERANCE = 1e-6, 0.618, 1e-9
_PIVOTS = 50  # at most, a row
_BRIEFLY = 600  # rows up to which a brief search costs less than the vertex, and is mostly enough
_LOOSE = 2e-3  # a gap that a plan at the last round's prices mostly keeps
_LEFT = 0.01  # of the gap that is asked for, to be left to the LP's optimum
# What nothing else closes HiGHS may in the time that is left, where options are so few; down to the gap that is
# asked for only where they are fewer still. It is given a full array: rows x columns cells.
_MOST_FOR_HIGHS, _FEW, _MOST_CELLS = 50_000, 2_000, 4_000_000


def solve(snapshot: Snapshot, memory: Memory, base: Ints | None, gap: float, time_limit_s: float) -> Found:
    """The best plan found, to a relative gap; no search is begun after the time limit.

    memory: of the last solve; that of this one is written into it. base: picks that serve the required rows, None:
    there are no such rows.
    """
    until_s = time.perf_counter() + time_limit_s
    found = mend(snapshot, memory, gap, until_s) if base is None else None
    if found is None:
        found = _anew(snapshot, memory, base, gap, until_s)
    snapshot.plan[:] = found.picks
    memory.prices, memory.left = found.prices, found.left
    return found


def _anew(snapshot: Snapshot, memory: Memory, base: Ints | None, gap: float, until_s: float) -> Found:
    plan: Found | None = None
    for priced in _ever_finer(snapshot, memory, gap if base is None else 0.0):
        near, prices, dual, passes, _ = priced
        # Finer prices may show that the plan at hand is better than rougher ones could.
        if base is None and (plan is None or not is_within(gap, plan.objective, dual)):
            plan = _better(plan, take_at(snapshot, priced, gap))
        if plan is not None and is_within(gap, plan.objective, dual):
            memory.learn(snapshot, prices, dual)
            return replace(plan, bound=max(dual, plan.objective), prices=prices, passes=passes)
    memory.learn(snapshot, prices, dual)
    if plan is not None and len(snapshot.rows.order) <= _BRIEFLY:
        sought = Sought(snapshot, near, near, prices, dual, gap, until_s)
        value = search_briefly(sought, plan.objective, plan.picks)
        plan = replace(plan, objective=value)
        if is_within(gap, value, dual):
            left = snapshot.room(plan.picks)
            return replace(plan, left=left, bound=max(dual, value), prices=prices, passes=passes)
    picks, nearest, prices, dual, torn, pivots = _vertex(snapshot, memory, near, prices, dual, base, gap)
    make_whole(snapshot, near, prices, picks, torn, base)
    if plan is not None and plan.objective > objective(snapshot.rows, picks):
        picks = plan.picks
    sought = Sought(snapshot, near, nearest, prices, dual, gap, until_s)
    value, bound = search(sought, picks)
    if sought.in_time and not is_within(gap, value, bound):
        value, bound = close(sought, picks, bound)
    few = snapshot.options <= _MOST_FOR_HIGHS and snapshot.cells <= _MOST_CELLS
    aim, left_s = gap if snapshot.options <= _FEW else max(gap, FAR), until_s - time.perf_counter()
    if few and left_s > 0 and not is_within(aim, value, bound):
        value, bound = branch(snapshot, prices, picks, value, bound, aim, left_s)
    return Found(picks, snapshot.room(picks), value, max(bound, value), prices, passes, pivots)


def _better(plan: Found | None, other: Found | None) -> Found | None:
    """That of more worth, the first one of equals."""
    if plan is None or (other is not None and other.objective > plan.objective):
        return other
    return plan


def _ever_finer(snapshot: Snapshot, memory: Memory, gap: float) -> Iterator[Priced]:
    """The last prices, where they may do, rough ones, where they may, and fine ones."""
    if gap >= _LOOSE and memory.prices is not None and memory.prices.any():
        near = memory.around_last(snapshot) if memory.knows_most(snapshot) else everywhere(snapshot)
        # The last prices are not known as well as that, but shares of wider ones move more jobs, for nothing.
        yield Priced(near, memory.prices, near.dual(snapshot.columns, memory.prices), 0, _FINE * memory.worth)
    # Prices that hardly moved at last are near enough to begin with what is fine, where rough ones prove nothing.
    straight = gap < _BY_ROUGH and memory.prices is not None and memory.moved < SMALL_REACH
    first = _first_prices(snapshot, memory, _FINE if straight else _ROUGH)
    if straight or gap >= _BY_ROUGH:
        yield first
    if not straight:
        yield _fine_prices(snapshot, memory, first)


def _first_prices(snapshot: Snapshot, memory: Memory, width: float) -> Priced:
    """From the last ones, or from nothing."""
    if memory.prices is None or not memory.prices.any():
        memory.worth = snapshot.worth_of_a_row() or 1.0
        prices = np.full(len(snapshot.capacity), memory.typical(snapshot))
        passes, dual = _improve(snapshot, memory, everywhere(snapshot), prices, _COLD, width)
        return Priced(memory.near(snapshot, prices, REACH), prices, dual, passes, width * memory.worth)
    prices, near = memory.prices.copy(), memory.around_last(snapshot)
    passes, dual = _improve(snapshot, memory, near, prices, width, width)
    if near.holds(prices):
        return Priced(memory.shrink(snapshot, near, prices, REACH), prices, dual, passes, width * memory.worth)
    more, dual = _improve(snapshot, memory, everywhere(snapshot), prices, width, width)
    return Priced(memory.near(snapshot, prices, REACH), prices, dual, passes + more, width * memory.worth)


def _fine_prices(snapshot: Snapshot, memory: Memory, rough: Priced) -> Priced:
    """Near the optimum's."""
    near, prices, _, passes, _ = rough
    more, dual = _improve(snapshot, memory, near, prices, _FINE, _FINE)
    passes += more
    if not near.holds(prices):
        near = memory.near(snapshot, prices, REACH)
        more, dual = _improve(snapshot, memory, near, prices, _FINE, _FINE)
        passes += more
    return Priced(near, prices, dual, passes, _FINE * memory.worth)


def _improve(
    snapshot: Snapshot, memory: Memory, near: Near, prices: Floats, width: float, last: float
) -> tuple[int, float]:
    """Writes better prices; (passes over rows, the dual at them)."""
    enough = _ENOUGH * last * memory.worth * max(len(snapshot.rows.order), 1)
    given = near.rows, snapshot.columns, near.room, near.low, near.high, prices, width * memory.worth
    reach = _NEAR_BY if width == last else _FAR_OFF
    passes, dual = find_prices(*given, last * memory.worth, enough, reach, memory.typical(snapshot))
    return passes, near.gain + dual


def _vertex(
    snapshot: Snapshot, memory: Memory, near: Near, prices: Floats, dual: float, base: Ints | None, gap: float
) -> tuple[Ints, Near, Floats, float, Ints, int]:
    """The LP's optimum: its keys as picks, rows open around it, prices, value, torn rows; and pivots."""
    columns, capacity = snapshot.columns, snapshot.capacity
    # A little more than the capacity, by amounts unlike each other, so that no two basic variables tie.
    lift: Floats = _LIFT * (1.0 + np.arange(len(capacity), dtype=np.float64) * _GOLDEN % 1.0)
    picks = settled_picks(snapshot)
    nearest = memory.nearest(snapshot, near, prices, picks)
    every = everywhere(snapshot)
    levels = [nearest, near, every]
    room = nearest.room + lift
    if (nearest.room < 0.0).any():
        levels, picks, room = [every], snapshot.no_picks(), capacity + lift
    rows = levels[0].rows
    again = memory.moved < SMALL_REACH and memory.basic is not None
    if again:
        rows = rows._replace(order=take_again(rows, columns, snapshot.key, picks, room))
    take_best(rows, columns, prices, picks, room)
    if base is not None and unserved(snapshot, picks):
        levels = [every]
        picks, room = around(snapshot, prices, base, lift)
    basis = from_plan(picks, room)
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
