"""Searches for a better plan than the one at hand, while that is not within the gap."""

from __future__ import annotations

import time
from dataclasses import dataclass

from .chains import find_chain
from .near import Near
from .plan import objective
from .problem import TOLERANCE
from .refine import refine
from .rows import NOTHING, Floats, Ints, Rows, dual_value
from .snapshot import Snapshot
from .whole import fill_rest

EXACT_ROWS = 40  # so many rows that may pick several things are searched as a whole
_WIDTHS = 256, 512  # combinations that are kept
# How many rows may move, chains kept of each length, the longest, and what part of the budget a row may lose.
_MOVERS, _WIDTH, _LONGEST, _LOSS = 64, 8, 8, 0.25


@dataclass(frozen=True, eq=False)
class Sought:
    """What is looked for, and what is known of it.

    near: the rows that are open near the prices; dual: the bound at the prices; gap: relative; until_s: of
    time.perf_counter(), when no further search begins.
    """

    snapshot: Snapshot
    near: Near
    prices: Floats
    dual: float
    gap: float
    until_s: float

    @property
    def in_time(self) -> bool:
        return time.perf_counter() <= self.until_s


def is_within(gap: float, value: float, bound: float) -> bool:
    return bound - value <= gap * min(abs(bound), abs(value)) + TOLERANCE


def search(sought: Sought, value: float, bound: float, picks: Ints) -> tuple[float, float]:
    """(objective, bound) of a plan that is at least as good as `picks`, worth `value`, which is written there."""
    if len(sought.snapshot.rows.order) > EXACT_ROWS:
        value = search_briefly(sought, value, bound, picks)
    return _prove(sought, value, bound, picks)


def search_briefly(sought: Sought, value: float, bound: float, picks: Ints) -> float:
    """Search among all rows where the plan is not within the gap; returns the objective."""
    snapshot, dual, gap = sought.snapshot, sought.dual, sought.gap
    if is_within(gap, value, bound) or not sought.in_time:
        return value
    wanted = dual - bound + gap * min(abs(bound), abs(value))
    return _chain(sought, snapshot.everything, snapshot.capacity, picks, dual - value, wanted)


def search_among(sought: Sought, few: Ints, value: float, picks: Ints) -> float:
    """Search among few rows, all others as they are; returns the objective.

    Only where `picks`, whose objective is `value`, are not within the gap; better ones are written to them.
    """
    snapshot, dual = sought.snapshot, sought.dual
    rows = snapshot.rows._replace(order=few)
    wanted = sought.gap * min(abs(dual), abs(value))
    if is_within(sought.gap, value, dual) or not sought.in_time:
        return value
    others = picks.copy()
    others[few] = NOTHING
    room = snapshot.room(others)
    # What the others lose for good.
    lost = dual - value - (dual_value(rows, snapshot.columns, room, sought.prices) - objective(rows, picks))
    if wanted <= lost:
        return value
    everything = snapshot.everything._replace(order=few)
    return _chain(sought, everything, room, picks, dual - value - lost, wanted - lost)


def _chain(sought: Sought, rows: Rows, room: Floats, picks: Ints, budget: float, wanted: float) -> float:
    snapshot = sought.snapshot
    given = rows, snapshot.columns, room, sought.prices, picks
    if find_chain(*given, budget, wanted, _LOSS * budget, _MOVERS, _WIDTH, _LONGEST) < budget:
        fill_rest(snapshot, sought.near, sought.prices, picks)
    return objective(snapshot.rows, picks)


def _prove(sought: Sought, value: float, bound: float, picks: Ints) -> tuple[float, float]:
    """(objective, bound) after exact searches where few rows may pick several things; better plans are written."""
    snapshot, dual = sought.snapshot, sought.dual
    everything = snapshot.everything
    # A first search that can look at every row costs so little that it goes for the very optimum.
    exact = len(everything.order) <= EXACT_ROWS
    for width in _WIDTHS if exact else _WIDTHS[-1:]:
        wanted = 0.0 if exact else sought.gap * min(abs(bound), abs(value))
        exact = False
        if bound - value <= wanted + TOLERANCE or not sought.in_time:
            break
        # A plan that falls short by `wanted` will do; that none falls short by the rest proves this one.
        budget = max(dual - value - wanted, wanted)
        given = everything, snapshot.columns, snapshot.capacity, sought.prices, picks
        found, left_out = refine(*given, budget, wanted, EXACT_ROWS, width)
        if found < budget:
            fill_rest(snapshot, sought.near, sought.prices, picks)
        value = objective(snapshot.rows, picks)
        # Plans that were left out fall short of the dual by that much; the others are no better than this one.
        bound = max(value, min(bound, dual - min(left_out, budget)))
    return value, bound
