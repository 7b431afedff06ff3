"""Searches for a better plan than the one at hand, narrow ones first, until one is within the gap."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .near import Near
from .plan import objective
from .problem import TOLERANCE
from .refine import refine
from .rows import NOTHING, Floats, Ints, dual_value
from .snapshot import Snapshot
from .whole import fill_up

EXACT_ROWS = 40  # so many rows are searched as a whole, at once
_FAR = 1e-3  # from its bound, where searches that take long are worth it


class _Search(NamedTuple):
    """How many rows are searched, how many of them would make the same change, combinations that are kept.

    far: of programs of many rows, or if that is `_FAR`, only plans that are further from their bound are searched.
    """

    rows: int
    alike: int
    combinations: int
    far: float


# First among rows that are open very near the prices, then among all, one search after the other.
_FIRST = _Search(24, 2, 128, 0.0)
_NARROW = (_Search(EXACT_ROWS, 1, 256, 0.0), _Search(EXACT_ROWS, 2, 512, 0.0), _Search(64, 1, 1024, 5e-4))
_WIDE = (
    _Search(128, 1, 2048, _FAR),
    _Search(128, 4, 2048, _FAR),
    _Search(48, 8, 4096, _FAR),
    _Search(64, 1, 8192, _FAR),
)
_MANY_ROWS = 256

Start = Callable[[Snapshot, Near, Floats], Ints]


def search(
    snapshot: Snapshot,
    near: Near,
    nearest: Near,
    prices: Floats,
    dual: float,
    picks: Ints,
    torn: Ints,
    gap: float,
    until_s: float,
    starts: Sequence[Start],
) -> tuple[Ints, float, float]:
    """(picks, objective, bound) of a plan that is at least as good as `picks`.

    starts: of plans to go on from where those found so far are far from their bound: a search goes from plan to
    plan, and may find nothing from one where another leads on.
    """
    value = objective(snapshot.rows, picks)
    wanted = gap * min(abs(dual), abs(value))
    many = len(snapshot.rows.order) > EXACT_ROWS
    if many and dual - value > wanted + TOLERANCE and time.perf_counter() < until_s:
        search_near(snapshot, near, nearest, prices, dual, value, picks, torn, wanted)
    value, bound = _search(snapshot, near, prices, dual, picks, torn, gap, until_s, _NARROW)
    for start in starts:
        if bound - value <= max(gap, _FAR) * abs(bound) + TOLERANCE or time.perf_counter() > until_s:
            break
        other = start(snapshot, near, prices)
        its_value, its_bound = _search(snapshot, near, prices, dual, other, torn, gap, until_s, _NARROW)
        bound = min(bound, its_bound)
        if its_value > value:
            picks, value = other, its_value
    if bound - value > gap * abs(bound) + TOLERANCE:
        value, its_bound = _search(snapshot, near, prices, dual, picks, torn, gap, until_s, _WIDE)
        bound = min(bound, its_bound)
    return picks, value, bound


def _search(
    snapshot: Snapshot,
    near: Near,
    prices: Floats,
    dual: float,
    picks: Ints,
    torn: Ints,
    gap: float,
    until_s: float,
    searches: Sequence[_Search],
) -> tuple[float, float]:
    """(objective, bound) after as many searches as are needed; better plans are written to `picks`."""
    everything, columns, capacity = snapshot.everything, snapshot.columns, snapshot.capacity
    count, bound, value = len(everything.order), dual, objective(snapshot.rows, picks)
    # A first search that can look at every row costs so little that it goes for the very optimum.
    exact = count <= EXACT_ROWS and searches is _NARROW
    for rows, alike, combinations, least in searches:
        far = least if count > _MANY_ROWS or least == _FAR else 0.0
        wanted = 0.0 if exact else max(gap, far) * min(abs(bound), abs(value))
        exact = False
        if bound - value <= wanted + TOLERANCE or time.perf_counter() > until_s:
            break
        # A plan that falls short by `wanted` will do; that none falls short by the rest proves this one.
        budget = max(dual - value - wanted, wanted)
        sizes = rows, alike, combinations
        found, left_out = refine(everything, columns, capacity, prices, picks, torn, budget, wanted, *sizes)
        if found < np.inf:
            fill_up(snapshot, near, prices, picks, snapshot.room(picks))
        value = objective(snapshot.rows, picks)
        # Plans that were left out fall short of the dual by that much; the others are no better than this one.
        bound = max(value, min(bound, dual - min(left_out, budget)))
    return value, bound


def search_near(
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
        found, _ = refine(few, columns, room, prices, picks, torn, budget, enough, *_FIRST[:3])
        if found < np.inf:
            fill_up(snapshot, near, prices, picks, snapshot.room(picks))
            return objective(snapshot.rows, picks)
    return value
