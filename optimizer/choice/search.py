"""Searches for a better plan than the one at hand, narrow ones first, until one is within the gap."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
FAR = 1e-3  # from its bound, where searches that take long are worth it


class _Search(NamedTuple):
    """How many rows are searched, how many of them would make the same change, combinations that are kept.

    far, few_far: only plans that are further from their bound are searched, in programs of many rows and of few.
    """

    rows: int
    alike: int
    combinations: int
    far: float = 0.0
    few_far: float = 0.0


# First among rows that are open very near the prices, then among all, one search after the other.
_FIRST = _Search(24, 2, 128)
_NARROW = (_Search(EXACT_ROWS, 1, 256), _Search(EXACT_ROWS, 2, 512))
_BROAD = _Search(64, 1, 1024, far=FAR)
_WIDE = (
    _Search(128, 1, 2048, FAR, FAR),
    _Search(128, 4, 2048, FAR, FAR),
    _Search(48, 8, 4096, FAR, FAR),
    _Search(64, 1, 8192, FAR, FAR),
)
_MANY_ROWS = 256

Start = Callable[[Snapshot, Near, Floats], Ints]


@dataclass(frozen=True, eq=False)
class Sought:
    """What is looked for, and what is known of it.

    near: the rows that are open near the prices, nearest: very near them; dual: the bound at the prices; torn: the
    rows that are looked at first; gap: relative; until_s: of time.perf_counter(), when no further search begins.
    """

    snapshot: Snapshot
    near: Near
    nearest: Near
    prices: Floats
    dual: float
    torn: Ints
    gap: float
    until_s: float

    @property
    def in_time(self) -> bool:
        return time.perf_counter() <= self.until_s


def is_within(gap: float, value: float, bound: float) -> bool:
    return bound - value <= gap * min(abs(bound), abs(value)) + TOLERANCE


def search(sought: Sought, picks: Ints, starts: Sequence[Start]) -> tuple[Ints, float, float]:
    """(picks, objective, bound) of a plan that is at least as good as `picks`, by searches that take little."""
    value = objective(sought.snapshot.rows, picks)
    if len(sought.snapshot.rows.order) > EXACT_ROWS:
        search_near(sought, value, picks)
    value, bound = _search(sought, sought.dual, picks, (*_NARROW, _BROAD))
    return _go_on(sought, picks, value, bound, starts)


def search_wide(
    sought: Sought, picks: Ints, value: float, bound: float, starts: Sequence[Start]
) -> tuple[Ints, float, float]:
    """The same where the plan, whose objective is `value`, is still far from the bound: by all there are."""
    picks, value, bound = _go_on(sought, picks, value, bound, starts)
    if not is_within(sought.gap, value, bound):
        value, bound = _search(sought, bound, picks, _WIDE)
    return picks, value, bound


def _go_on(
    sought: Sought, picks: Ints, value: float, bound: float, starts: Sequence[Start]
) -> tuple[Ints, float, float]:
    """From other plans, while the best is far from the bound: from one a search may lead on, from another not."""
    for start in starts:
        if is_within(max(sought.gap, FAR), value, bound) or not sought.in_time:
            break
        other = start(sought.snapshot, sought.near, sought.prices)
        its_value, bound = _search(sought, bound, other, _NARROW)
        if its_value > value:
            picks, value = other, its_value
    return picks, value, bound


def _search(sought: Sought, bound: float, picks: Ints, searches: Sequence[_Search]) -> tuple[float, float]:
    """(objective, bound) after as many searches as are needed; better plans are written to `picks`."""
    snapshot, dual = sought.snapshot, sought.dual
    everything, columns, capacity = snapshot.everything, snapshot.columns, snapshot.capacity
    count, value = len(everything.order), objective(snapshot.rows, picks)
    # A first search that can look at every row costs so little that it goes for the very optimum.
    exact = count <= EXACT_ROWS and searches is not _WIDE
    for rows, alike, combinations, far, few_far in searches:
        least = far if count > _MANY_ROWS else few_far
        wanted = 0.0 if exact else max(sought.gap, least) * min(abs(bound), abs(value))
        exact = False
        if bound - value <= wanted + TOLERANCE or not sought.in_time:
            break
        # A plan that falls short by `wanted` will do; that none falls short by the rest proves this one.
        budget = max(dual - value - wanted, wanted)
        sizes = rows, alike, combinations
        found, left_out = refine(
            everything, columns, capacity, sought.prices, picks, sought.torn, budget, wanted, *sizes
        )
        if found < np.inf:
            fill_up(snapshot, sought.near, sought.prices, picks, snapshot.room(picks))
        value = objective(snapshot.rows, picks)
        # Plans that were left out fall short of the dual by that much; the others are no better than this one.
        bound = max(value, min(bound, dual - min(left_out, budget)))
    return value, bound


def search_near(sought: Sought, value: float, picks: Ints) -> float:
    """Search among the rows that are open very near the prices, all others as they are; returns the objective.

    Only where `picks`, whose objective is `value`, are not within the gap; better ones are written to them.
    """
    snapshot, dual, prices, rows = sought.snapshot, sought.dual, sought.prices, sought.nearest.rows
    wanted = sought.gap * min(abs(dual), abs(value))
    if is_within(sought.gap, value, dual) or not sought.in_time:
        return value
    few = snapshot.everything._replace(order=rows.order)
    others = picks.copy()
    others[rows.order] = NOTHING
    room = snapshot.room(others)
    # What the others lose for good.
    lost = dual - value - (dual_value(rows, snapshot.columns, room, prices) - objective(rows, picks))
    enough = wanted - lost
    if enough <= 0.0:
        return value
    budget = max(dual - value - wanted - lost, enough)
    found, _ = refine(few, snapshot.columns, room, prices, picks, sought.torn, budget, enough, *_FIRST[:3])
    if found < np.inf:
        fill_up(snapshot, sought.near, prices, picks, snapshot.room(picks))
    return objective(snapshot.rows, picks)
