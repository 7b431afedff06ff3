"""Solving a choice program: prices, the LP's vertex, what is whole of it, and a search over what is not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .at_prices import take_at
from .closing import FAR, bound_by_rows, close
from .exact import branch
from .memory import Memory
from .mend import mend
from .near import NOWHERE, REACH, SMALL_REACH, Near, Priced, dual_near, everywhere, knows_most
from .plan import objective
from .prices import find_prices
from .problem import TOLERANCE
from .rows import Ints
from .search import EXACT_ROWS, Sought, is_within, search, search_briefly
from .seek import Aim, seek
from .simplex import nothing_first
from .snapshot import Found, Snapshot
from .vertex import find_vertex
from .whole import make_whole

_COLD, _ROUGH, _FINE = 0.3, 5e-3, 1e-3  # widths of the smoothed dual, in units of a row's worth
_ENOUGH = 8e-3  # of a width, that a step must gain a row for the prices to be worth another
_NEAR_BY, _FAR_OFF = 0.1, np.inf  # by what part of a price a first step may go: from the last prices, from nothing
_BY_ROUGH = 2.5e-4  # a gap that a plan at rough prices may keep
_BRIEFLY = 600  # rows up to which a search for chains costs less than the vertex, and is mostly enough
_NEARLY = 1.5  # times the gap, that a plan may lack for better prices of rows to come before wider searches
_LOOSE = 2e-3  # a gap that a plan at the last round's prices mostly keeps
_NO_PICKS = np.empty(0, np.int64)
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
        sought = Sought(snapshot, near, prices, dual, gap, until_s)
        value = search_briefly(sought, plan.objective, dual, plan.picks)
        plan = replace(plan, objective=value)
        if is_within(gap, value, dual):
            left = snapshot.room(plan.picks)
            return replace(plan, left=left, bound=max(dual, value), prices=prices, passes=passes)
    picks, prices, dual, torn, pivots, memory.basic = find_vertex(
        *snapshot.frame,
        *snapshot.known,
        snapshot.key,
        near,
        prices,
        dual,
        memory.typical(snapshot),
        _NO_PICKS if base is None else base,
        memory.basic if memory.moved < SMALL_REACH and memory.basic is not None else nothing_first(),
        _LEFT * gap * max(dual, 0.0),
    )
    make_whole(snapshot, near, prices, picks, torn, base)
    if plan is not None and plan.objective > objective(snapshot.rows, picks):
        picks = plan.picks
    sought = Sought(snapshot, near, prices, dual, gap, until_s)
    value, bound = objective(snapshot.rows, picks), dual
    lacks_little = not is_within(gap, value, dual) and is_within(_NEARLY * gap, value, dual)
    if lacks_little and len(snapshot.rows.order) > EXACT_ROWS:
        bound = bound_by_rows(sought, value, bound)
    value, bound = search(sought, value, bound, picks)
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
        known = knows_most(snapshot.state, snapshot.rows.order)
        near = memory.near(snapshot, memory.prices, memory.ahead) if known else _everywhere(snapshot)
        dual = dual_near(snapshot.rows, snapshot.columns, near, memory.prices)
        # The last prices are not known as well as that, but shares of wider ones move more jobs, for nothing.
        yield Priced(near, memory.prices, dual, 0, _FINE * memory.worth)
    # Prices that hardly moved at last are near enough to begin with what is fine, where rough ones prove nothing.
    straight = gap < _BY_ROUGH and memory.prices is not None and memory.moved < SMALL_REACH
    first = _first_prices(snapshot, memory, _FINE if straight else _ROUGH)
    if straight or gap >= _BY_ROUGH:
        yield first
    if not straight:
        yield _fine_prices(snapshot, memory, first)


def _first_prices(snapshot: Snapshot, memory: Memory, width: float) -> Priced:
    """From the last ones, or from nothing."""
    if memory.prices is None or memory.worth <= TOLERANCE:
        memory.worth = snapshot.worth_of_a_row() or 1.0
        prices, aim = np.full(len(snapshot.capacity), memory.typical(snapshot)), _aim(snapshot, memory, width)
        near = _everywhere(snapshot)
        box, first = (near.low, near.high), _COLD * memory.worth
        passes, dual = find_prices(
            *snapshot.frame, *box, prices, first, aim.width, aim.enough, _FAR_OFF, aim.typical
        )
        return Priced(memory.near(snapshot, prices, REACH), prices, dual, passes, aim.width)
    prices, aim = memory.prices.copy(), _aim(snapshot, memory, width)
    given = *snapshot.frame, *snapshot.known, NOWHERE, memory.held, memory.ahead, REACH, aim
    near, memory.held, passes, dual = seek(*given, prices)
    return Priced(near, prices, dual, passes, aim.width)


def _fine_prices(snapshot: Snapshot, memory: Memory, rough: Priced) -> Priced:
    """Near the optimum's."""
    prices, aim = rough.prices, _aim(snapshot, memory, _FINE)
    given = *snapshot.frame, *snapshot.known, rough.near, memory.held, 0.0, REACH, aim
    near, memory.held, passes, dual = seek(*given, prices)
    return Priced(near, prices, dual, rough.passes + passes, aim.width)


def _aim(snapshot: Snapshot, memory: Memory, width: float) -> Aim:
    """Prices of a width, in units of a row's worth."""
    width *= memory.worth
    enough = _ENOUGH * width * max(len(snapshot.rows.order), 1)
    return Aim(width, enough, _NEAR_BY, memory.typical(snapshot))


def _everywhere(snapshot: Snapshot) -> Near:
    return everywhere(snapshot.rows, snapshot.capacity)
