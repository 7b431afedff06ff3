"""Rows that prices near those at hand may turn; all others are settled, and nobody looks at them again.

Prices move little while a round is solved, and not much more from round to round. Where prices are known to lie in
a box, a row's pick is *settled* if it is worth most at every point of the box. Worths are linear in the prices, so
that two corners show it. What the settled rows take and gain is two sums, whatever the prices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel, step
from .plan import move
from .problem import TOLERANCE
from .rows import (
    NOTHING,
    STAY,
    Columns,
    Floats,
    Ints,
    Rows,
    best_of,
    column_of,
    costs,
    dual_value,
    foresee,
    gain_of,
    rises,
    some_of,
)

UNKNOWN, OPEN, SETTLED = 0, 1, 2  # states of a row
REACH = 0.02  # around rough prices
SMALL_REACH = 0.01  # around those where the vertex or a mended plan is looked for
_TOO_WIDE = 1.5  # times as wide as a box needs to be, that it is made anew or shrinks
_FLOOR = 0.5  # of a typical price, by which each counts as more than it is, as 0 may become a price too


@step
def _pick_in_box(rows: Rows, columns: Columns, row: int, low_cost: Floats, high_cost: Floats) -> tuple[bool, int]:
    """Whether one pick is worth most in all of the box, and which."""
    least, pick = best_of(rows, row, high_cost)
    column = column_of(rows, row, pick)
    own = columns.group[column] if column >= 0 else -1
    if rows.required[row] or (pick != NOTHING and least <= 0.0):
        return False, pick
    # Against a pick of another group it is worth least where its own group costs most and the other least; where
    # both are of one group with one price, at one end or the other.
    most = gain_of(rows, row, pick) - (low_cost[column] if column >= 0 else 0.0)
    stay = rows.stay_column[row]
    if stay >= 0 and pick != STAY:
        worth = rows.stay_gain[row] - low_cost[stay]
        alike = columns.group[stay] == own and rows.concave[own]
        if worth >= (most if alike else least) or rows.stay_gain[row] - high_cost[stay] >= least:
            return False, pick
    for g in range(len(rows.concave)):
        begin, end = rows.begin[row, g], rows.end[row, g]
        if begin == end:
            continue
        if rows.concave[g]:
            # At the highest prices most worth is where `best_of` just left it; at lower ones it is no earlier.
            begin = min(begin + rows.top[row, g], end - 1)
            while begin + 1 < end and rises(rows, row, begin, low_cost):
                begin += 1
            end = begin + 1
        bar = most if g == own and rows.concave[g] else least
        for k in range(begin, end):
            if k != pick and rows.offset[row] + rows.scale[row] * rows.value[k] - low_cost[rows.column[k]] >= bar:
                return False, pick
    return True, pick


@kernel
def _settle(
    rows: Rows, columns: Columns, low: Floats, high: Floats, state: NDArray[np.int8], picks: Ints, room: Floats
) -> tuple[Ints, float]:
    """Look at the rows whose state is UNKNOWN; (open rows, gain of the settled), and room less what these take."""
    low_cost, high_cost = np.empty(len(columns.begin) - 1), np.empty(len(columns.begin) - 1)
    costs(columns, low, low_cost)
    costs(columns, high, high_cost)
    found = np.empty(len(rows.order), np.int64)
    n, gain = 0, 0.0
    for i in range(len(rows.order)):
        row = rows.order[i]
        if state[row] == UNKNOWN:
            foresee(rows, i)
            settled, pick = _pick_in_box(rows, columns, row, low_cost, high_cost)
            state[row] = SETTLED if settled else OPEN
            if settled:
                picks[row] = pick
        if state[row] == SETTLED:
            gain += gain_of(rows, row, picks[row])
            move(columns, NOTHING, column_of(rows, row, picks[row]), room)
        else:
            found[n] = row
            n += 1
    return found[:n], gain


class Near(NamedTuple):
    """A box of prices, low to high: (limits,), and the rows that are open in it, as they come in the order.

    room: (limits,) what the settled rows leave of the capacity; gain: theirs together.
    """

    low: Floats
    high: Floats
    order: Ints
    room: Floats
    gain: float


NOWHERE = Near(np.empty(0), np.empty(0), np.empty(0, np.int64), np.empty(0), 0.0)


class Priced(NamedTuple):
    """Rows that are open near some prices, these: (limits,), the dual there, and passes over rows to find them.

    width: of the shares that rows have of their picks at these prices, in what a row is worth.
    """

    near: Near
    prices: Floats
    dual: float
    passes: int
    width: float


@kernel
def everywhere(rows: Rows, capacity: Floats) -> Near:
    """All prices, at which all rows are open."""
    low, high = np.zeros(len(capacity)), np.empty(len(capacity))
    high[:] = np.inf
    return Near(low, high, rows.order, capacity.copy(), 0.0)


@kernel
def near_in(
    rows: Rows,
    columns: Columns,
    capacity: Floats,
    low: Floats,
    high: Floats,
    state: NDArray[np.int8],
    settled: Ints,
) -> Near:
    """In a box for which these states hold; those that are UNKNOWN are written, and what is settled then."""
    room = capacity.copy()
    order, gain = _settle(rows, columns, low, high, state, settled, room)
    return Near(low, high, order, room, gain)


@kernel
def nearer(
    rows: Rows, columns: Columns, near: Near, low: Floats, high: Floats, state: NDArray[np.int8], picks: Ints
) -> Near:
    """In a box within that of `near`; written are the states of its rows, and picks of those that are settled."""
    within_low, within_high, room = np.empty(len(low)), np.empty(len(low)), near.room.copy()
    for i in range(len(low)):
        within_low[i], within_high[i] = max(low[i], near.low[i]), min(high[i], near.high[i])
    for row in near.order:
        state[row] = UNKNOWN
    few = some_of(rows, near.order)
    order, gain = _settle(few, columns, within_low, within_high, state, picks, room)
    return Near(within_low, within_high, order, room, near.gain + gain)


@kernel
def nearest(rows: Rows, columns: Columns, near: Near, prices: Floats, typical: float, picks: Ints) -> Near:
    """Very near `prices`, for one solve only; written are picks of rows that are open in `near` alone."""
    low, high = box(prices, SMALL_REACH, typical)
    return nearer(rows, columns, near, low, high, np.zeros(len(picks), np.int8), picks)


@kernel
def dual_near(rows: Rows, columns: Columns, near: Near, prices: Floats) -> float:
    """Of all rows, at prices within the box."""
    return near.gain + dual_value(some_of(rows, near.order), columns, near.room, prices)


@kernel
def settled_picks(state: NDArray[np.int8], settled: Ints) -> Ints:
    """By row, NOTHING where it is not settled."""
    picks = np.empty(len(state), np.int64)
    for row in range(len(state)):
        picks[row] = settled[row] if state[row] == SETTLED else NOTHING
    return picks


class Box(NamedTuple):
    """Of prices, low to high: (limits,), in which states of rows hold; as wide as `reach`, inf: there is none."""

    low: Floats
    high: Floats
    reach: float


def no_box() -> Box:
    return Box(np.zeros(0), np.zeros(0), np.inf)


@kernel
def near_around(
    rows: Rows,
    columns: Columns,
    capacity: Floats,
    state: NDArray[np.int8],
    settled: Ints,
    held: Box,
    prices: Floats,
    reach: float,
    typical: float,
) -> tuple[Near, Box]:
    """Around `prices`, by so large a part of them; in the box that is held while it serves."""
    serves = held.reach <= _TOO_WIDE * reach and knows_most(state, rows.order)
    if not serves or not is_inside(prices, held.low, held.high):
        low, high = box(prices, reach, typical)
        held = Box(low, high, reach)
        state[:] = UNKNOWN
    return near_in(rows, columns, capacity, held.low, held.high, state, settled), held


@kernel
def shrunk(
    rows: Rows,
    columns: Columns,
    state: NDArray[np.int8],
    settled: Ints,
    near: Near,
    held: Box,
    prices: Floats,
    reach: float,
    typical: float,
) -> tuple[Near, Box]:
    """The box held, that of `near`, shrunk to what is around `prices`; as it is where it is small enough."""
    if held.reach <= _TOO_WIDE * reach:
        return near, held
    low, high = box(prices, reach, typical)
    found = nearer(rows, columns, near, low, high, state, settled)
    return found, Box(found.low, found.high, reach)


@step
def _scale(price: float, typical: float) -> float:
    return max(price + _FLOOR * typical, TOLERANCE)


@kernel
def box(prices: Floats, reach: float, typical: float) -> tuple[Floats, Floats]:
    """Lowest and highest prices around `prices`, by a part of each and of what is typical."""
    low, high = np.empty(len(prices)), np.empty(len(prices))
    for i in range(len(prices)):
        half = reach * _scale(prices[i], typical)
        low[i], high[i] = max(prices[i] - half, 0.0), prices[i] + half
    return low, high


@kernel
def furthest(old: Floats, new: Floats, typical: float) -> float:
    """By what part of a price prices differ at most."""
    most = 0.0
    for i in range(len(old)):
        most = max(most, abs(new[i] - old[i]) / _scale(new[i], typical))
    return most


@kernel
def is_inside(prices: Floats, low: Floats, high: Floats) -> bool:
    """Whether prices are in a box, away from where it ends; those of 0 are."""
    inside = True
    for i in range(len(prices)):
        inside = inside and (prices[i] > low[i] or low[i] == 0.0) and prices[i] < high[i]
    return inside


@kernel
def count_unknown(state: NDArray[np.int8], order: Ints) -> int:
    """Of how many rows the state is not known."""
    count = 0
    for row in order:
        count += state[row] == UNKNOWN
    return count


@kernel
def knows_most(state: NDArray[np.int8], order: Ints) -> bool:
    """Whether the states of most rows hold."""
    return 2 * count_unknown(state, order) <= len(order)
