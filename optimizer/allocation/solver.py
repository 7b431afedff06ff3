"""Solves a program in at most four steps.

1. Find prices of the limits that minimise the Lagrangian bound, from the last solve's prices.
2. Round at these prices: each row takes its best option that fits, and what is left is given away.
3. If the plan is not within the gap, pivot to a vertex of the LP relaxation and round that.
4. If it still is not, and the program is small, HiGHS closes the gap over what reduced costs leave open.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from .box import REACH, SMALL_REACH, Near, everywhere, seek
from .candidates import Candidates
from .exact import close_gap, serve_required
from .memory import Memory
from .options import Floats, Ints, objective
from .prices import Aim, find_prices
from .problem import TOLERANCE
from .rounding import SLACK, round_at, round_vertex
from .snapshot import Found, Snapshot
from .vertex import find_vertex

# Widths of the smoothed dual, in units of an average row's gain.
_COLD_WIDTH, _ROUGH_WIDTH, _FINE_WIDTH = 0.3, 5e-3, 1e-3
_ENOUGH = 8e-3  # price steps end when one improves the bound by less than this part of a width per row
_FIRST_STEP, _ANY_STEP = 0.1, np.inf  # largest relative change of a price in the first step: warm, cold
_VERTEX_GAP = 0.01  # part of the gap that the vertex may leave
# HiGHS closes the gap to what is asked for up to `_FEW_OPTIONS`, and to `_LOOSE_GAP` up to `_MOST_OPTIONS`.
_MOST_OPTIONS, _FEW_OPTIONS, _LOOSE_GAP = 50_000, 2_000, 1e-3


def solve(snapshot: Snapshot, memory: Memory, base: Ints | None, gap: float, time_limit_s: float) -> Found:
    """Return the best plan found. Stop at the relative gap, and start no further step after the time limit.

    `memory` is what the last solve left, and is updated. `base` serves the required rows; None if there are none.
    """
    until_s = time.perf_counter() + time_limit_s
    near, prices, bound, passes = _find_prices(snapshot, memory)
    memory.learn(snapshot.program, prices, bound)
    if base is None:
        picks = round_at(snapshot.program, snapshot.everything, near, snapshot.known, prices)
        found = Found(picks, objective(snapshot.program.rows, picks), bound, prices, passes, 0)
    else:
        found = Found(base, -np.inf, bound, prices, passes, 0)
    if not found.is_within(gap):
        found = _round_vertex(snapshot, memory, near, found, base, gap)
    if not found.is_within(gap):
        found = _close(snapshot, found, gap, until_s)
    memory.prices = found.prices  # prices of the vertex are nearer to the next solve's than those found first
    return replace(found, bound=max(found.bound, found.objective))


def serve(snapshot: Snapshot, time_limit_s: float) -> tuple[Ints, tuple[int, ...]]:
    """Return picks by row that serve the required rows, and the places in the order of those that go without.

    If a plan of HiGHS exceeds a capacity a little, the last rows go without.
    """
    options = _candidates(snapshot)
    plan, _ = serve_required(options, time_limit_s)
    for row in np.flatnonzero(plan >= 0)[::-1]:
        over = options.used(plan) > options.capacity + SLACK
        if not over.any():
            break
        if (options.usage[over, plan[row]] > 0).any():
            plan[row] = -1
    unmet = np.flatnonzero(options.required & (plan < 0))[::-1]
    return snapshot.picks_of(options.choice(plan)), tuple(unmet.tolist())


def _find_prices(snapshot: Snapshot, memory: Memory) -> tuple[Near, Floats, float, int]:
    """Return the rows that are open near the prices, the prices, their bound, and the passes over rows."""
    program, known = snapshot.program, snapshot.known
    if memory.prices is None or memory.worth <= TOLERANCE:
        memory.worth = snapshot.gain_per_row() or 1.0
        prices, box = np.full(len(program.capacity), memory.typical(program)), everywhere(program).box
        aim = _aim(snapshot, memory, _FINE_WIDTH)
        aim = aim._replace(first_width=_COLD_WIDTH * memory.worth, reach=_ANY_STEP)
        passes, bound = find_prices(*program, box.low, box.high, prices, aim)
        return memory.near(program, known, prices, REACH), prices, bound, passes
    prices, passes, ahead = memory.prices.copy(), 0, memory.ahead
    # Prices that hardly moved at the last solve are near enough to start with the fine width.
    for width in (_FINE_WIDTH,) if memory.moved < SMALL_REACH else (_ROUGH_WIDTH, _FINE_WIDTH):
        aim = _aim(snapshot, memory, width)
        near, more, bound = seek(program, known, memory.held, ahead, REACH, aim, prices)
        memory.held, passes, ahead = near.box, passes + more, REACH
    return near, prices, bound, passes


def _aim(snapshot: Snapshot, memory: Memory, width: float) -> Aim:
    """Return how exactly prices are sought at a width, which is in units of an average row's gain."""
    width *= memory.worth
    enough = _ENOUGH * width * max(len(snapshot.order), 1)
    return Aim(width, width, enough, _FIRST_STEP, memory.typical(snapshot.program))


def _round_vertex(
    snapshot: Snapshot, memory: Memory, near: Near, found: Found, base: Ints | None, gap: float
) -> Found:
    """Return the better one of the plan found and the rounded vertex of the LP relaxation."""
    program = snapshot.program
    picks, prices, bound, split, pivots = find_vertex(
        program,
        snapshot.known,
        near,
        found.prices,
        found.bound,
        memory.typical(program),
        base,
        _VERTEX_GAP * gap * max(found.bound, 0.0),
    )
    round_vertex(program, snapshot.everything, near, prices, picks, split, base)
    value = objective(program.rows, picks)
    if value < found.objective:
        picks, value = found.picks, found.objective
    return Found(picks, value, bound, prices, found.passes, pivots)


def _close(snapshot: Snapshot, found: Found, gap: float, until_s: float) -> Found:
    """Let HiGHS close the gap in the time that is left, if the program is small."""
    count, left_s = snapshot.options, until_s - time.perf_counter()
    aim = gap if count <= _FEW_OPTIONS else max(gap, _LOOSE_GAP)
    if count > _MOST_OPTIONS or left_s <= 0 or found.is_within(aim):
        return found
    options = _candidates(snapshot)
    plan = options.plan_of(snapshot.columns_of(found.picks))
    better, bound = close_gap(options, found.prices, plan, found.bound, aim, left_s)
    value = options.value(better)
    served = not (options.required & (better < 0)).any()
    if value <= found.objective or not served or not options.fits(better, SLACK):
        return replace(found, bound=bound)
    return replace(found, picks=snapshot.picks_of(options.choice(better)), objective=value, bound=bound)


def _candidates(snapshot: Snapshot) -> Candidates:
    """Return all options of the program's rows as flat arrays."""
    entries, order = snapshot.entries(), snapshot.order
    usage = snapshot.usage[snapshot.kind[order][entries.row], :, entries.column].T
    required = snapshot.program.rows.required[order]
    return Candidates(entries.row, entries.column, entries.gain, usage, required, snapshot.program.capacity)
