"""Searches for a better plan than the one at hand, narrow ones first, until one is within the gap."""

from __future__ import annotations

import time

import numpy as np

from .near import Near
from .plan import objective
from .problem import TOLERANCE
from .refine import refine
from .rows import NOTHING, Floats, Ints, dual_value
from .snapshot import Snapshot
from .whole import fill_up

# Rows that are searched where the plan at hand is not good enough, how many of them would make the same change,
# and combinations that are kept: first among rows that are open very near the prices, then among all, one search
# after the other. The later ones, which take longest, are left out where the plan is as near to its bound as the
# last number, in programs of many rows or if that is `_FAR`.
_FIRST_SEARCH = (24, 2, 128)
_FAR = 1e-3
EXACT_ROWS = 40  # so many rows are searched as a whole, at once
_SEARCHES = (
    (EXACT_ROWS, 1, 256, 0.0),
    (EXACT_ROWS, 2, 512, 0.0),
    (64, 1, 1024, 5e-4),
    (128, 1, 2048, _FAR),
    (128, 4, 2048, _FAR),
    (48, 8, 4096, _FAR),
)
_MANY_ROWS = 256
_LAST_SEARCH = (64, 1, 8192, _FAR)  # of many rows, which nearly always have a plan as near as that


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
) -> tuple[float, float]:
    """(objective, bound) after as many searches as are needed; better plans are written to `picks`."""
    everything, columns, capacity = snapshot.everything, snapshot.columns, snapshot.capacity
    count, bound, value = len(everything.order), dual, objective(snapshot.rows, picks)
    # A first search that can look at every row costs so little that it goes for the very optimum.
    exact = count <= EXACT_ROWS
    wanted = gap * min(abs(bound), abs(value))
    if not exact and bound - value > wanted + TOLERANCE and time.perf_counter() < until_s:
        value = search_near(snapshot, near, nearest, prices, dual, value, picks, torn, wanted)
    many = count > _MANY_ROWS
    for search in (*_SEARCHES, _LAST_SEARCH) if many else _SEARCHES:
        far = search[3] if many or search[3] == _FAR else 0.0
        wanted = 0.0 if exact else max(gap, far) * min(abs(bound), abs(value))
        exact = False
        if bound - value <= wanted + TOLERANCE or time.perf_counter() > until_s:
            break
        # A plan that falls short by `wanted` will do; that none falls short by the rest proves this one.
        budget = max(dual - value - wanted, wanted)
        found, left_out = refine(everything, columns, capacity, prices, picks, torn, budget, wanted, *search[:3])
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
        found, _ = refine(few, columns, room, prices, picks, torn, budget, enough, *_FIRST_SEARCH)
        if found < np.inf:
            fill_up(snapshot, near, prices, picks, snapshot.room(picks))
            return objective(snapshot.rows, picks)
    return value
