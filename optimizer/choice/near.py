"""Rows that prices near those at hand may turn; all others are settled, and nobody looks at them again.

Prices move little while a round is solved, and not much more from round to round. Where prices are known to lie in
a box, a row's pick is *settled* if it is worth most at every point of the box. Worths are linear in the prices, so
that two corners show it. What the settled rows take and gain is two sums, whatever the prices.
"""

from __future__ import annotations

from dataclasses import dataclass
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
)
from .simplex import Entering
from .snapshot import Snapshot

UNKNOWN, OPEN, SETTLED = 0, 1, 2  # states of a row
# How far prices are expected to go, as a part of them: so many times as far as at last, within limits.
_AHEAD, _LEAST_REACH, _MOST_REACH = 2.0, 0.02, 0.15
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


@dataclass(frozen=True, eq=False)
class Near:
    """A box of prices, low to high: (limits,), and rows that are open in it.

    room: (limits,) what the settled rows leave of the capacity; gain: theirs together.
    """

    low: Floats
    high: Floats
    rows: Rows
    room: Floats
    gain: float

    def holds(self, prices: Floats) -> bool:
        """Whether prices are inside, away from where the box ends; those of 0 are."""
        return _inside(prices, self.low, self.high)

    def dual(self, columns: Columns, prices: Floats) -> float:
        """Of all rows, at prices within the box."""
        return self.gain + dual_value(self.rows, columns, self.room, prices)

    def nearer(self, columns: Columns, low: Floats, high: Floats, state: NDArray[np.int8], picks: Ints) -> Near:
        """In a box within this one; written are the states of its rows, and picks of those that are settled."""
        state[self.rows.order] = UNKNOWN
        low, high = np.maximum(low, self.low), np.minimum(high, self.high)
        room = self.room.copy()
        order, gain = _settle(self.rows, columns, low, high, state, picks, room)
        return Near(low, high, self.rows._replace(order=order), room, self.gain + gain)


class Priced(NamedTuple):
    """Rows that are open near some prices, these: (limits,), the dual there, and passes over rows to find them.

    width: of the shares that rows have of their picks at these prices, in what a row is worth.
    """

    near: Near
    prices: Floats
    dual: float
    passes: int
    width: float


def everywhere(snapshot: Snapshot) -> Near:
    """All prices, at which all rows are open."""
    capacity = snapshot.capacity
    return Near(np.zeros(len(capacity)), np.full(len(capacity), np.inf), snapshot.rows, capacity, 0.0)


def settled_picks(snapshot: Snapshot) -> Ints:
    """By row, NOTHING where it is not settled."""
    return np.where(snapshot.state == SETTLED, snapshot.settled, NOTHING)


@dataclass(eq=False)
class Memory:
    """What one solve leaves for the next: prices, the box in which the states of the program's rows hold, a basis.

    worth: of a row, on average; moved: by what part prices changed at last; left: (limits,) by the plan.
    """

    prices: Floats | None = None
    worth: float = 1.0
    moved: float = 0.0
    low: Floats | None = None
    high: Floats | None = None
    reach: float = 0.0  # of that box
    basic: Entering | None = None
    left: Floats | None = None

    def near(self, snapshot: Snapshot, prices: Floats, reach: float) -> Near:
        """Around `prices`, by so large a part of them; in the box there was while it serves."""
        state, columns = snapshot.state, snapshot.columns
        low, high = self.low, self.high
        serves = self.reach <= _TOO_WIDE * reach and self.knows_most(snapshot)
        if low is None or high is None or not serves or not _inside(prices, low, high):
            low, high = box(prices, reach, self.typical(snapshot))
            self.low, self.high, self.reach = low, high, reach
            state[:] = UNKNOWN
        room = snapshot.capacity.copy()
        open_rows, gain = _settle(snapshot.rows, columns, low, high, state, snapshot.settled, room)
        return Near(low, high, snapshot.rows._replace(order=open_rows), room, gain)

    def shrink(self, snapshot: Snapshot, near: Near, prices: Floats, reach: float) -> Near:
        """The box at hand, that of `near`, to what is around `prices`; as it is where it is small enough."""
        if self.reach <= _TOO_WIDE * reach:
            return near
        ends = box(prices, reach, self.typical(snapshot))
        found = near.nearer(snapshot.columns, *ends, snapshot.state, snapshot.settled)
        self.low, self.high, self.reach = found.low, found.high, reach
        return found

    def nearest(self, snapshot: Snapshot, near: Near, prices: Floats, picks: Ints) -> Near:
        """Very near `prices`, for one solve only; written are picks of rows that are open in `near` alone."""
        ends = box(prices, SMALL_REACH, self.typical(snapshot))
        return near.nearer(snapshot.columns, *ends, snapshot.no_states(), picks)

    def around_last(self, snapshot: Snapshot) -> Near:
        """Around the last prices, by as much as they are expected to move."""
        assert self.prices is not None
        return self.near(snapshot, self.prices, min(max(_AHEAD * self.moved, _LEAST_REACH), _MOST_REACH))

    def knows_most(self, snapshot: Snapshot) -> bool:
        """Whether the states of most rows hold."""
        order = snapshot.rows.order
        return 2 * count_unknown(snapshot.state, order) <= len(order)

    def learn(self, snapshot: Snapshot, prices: Floats, dual: float) -> None:
        """What the rows are worth now, and how far prices are from the last ones."""
        if self.prices is not None:
            self.moved = _furthest(self.prices, prices, self.typical(snapshot))
        self.worth = max(abs(dual) / max(len(snapshot.rows.order), 1), TOLERANCE)

    def typical(self, snapshot: Snapshot) -> float:
        """What a unit of a limit costs, about."""
        return self.worth * len(snapshot.rows.order) / max(sum(snapshot.capacity.tolist()), 1.0)


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
def _furthest(old: Floats, new: Floats, typical: float) -> float:
    """By what part of a price prices differ at most."""
    most = 0.0
    for i in range(len(old)):
        most = max(most, abs(new[i] - old[i]) / _scale(new[i], typical))
    return most


@kernel
def _inside(prices: Floats, low: Floats, high: Floats) -> bool:
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
