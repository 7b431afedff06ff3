"""Reduced-cost fixing around known prices: a row is fixed if no price in a box changes its pick.

Prices move little while a round is solved, and not much more from round to round. If prices lie in a box, a row is
*fixed* whose best pick is the same at every point of the box. Worths are linear in the prices, so two corners of
the box decide that. All other rows are *open*. Only they are looked at again while prices stay in the box.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel, step
from .options import (
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
    gain_of,
    rises,
)
from .prices import Aim, find_prices
from .problem import TOLERANCE

UNKNOWN, OPEN, FIXED = 0, 1, 2  # states of a row
REACH = 0.02  # half the relative width of a box around rough prices
SMALL_REACH = 0.01  # the same around prices that are nearly the LP's
_TOO_WIDE = 1.5  # a box wider than needed by this factor is made anew, or shrinks
_FLOOR = 0.5  # part of a typical price that is added to every price, as prices of 0 may become positive
_BOXES, _WIDER = 3, 2.0  # boxes to try, each wider by this factor, before all rows are open


class Box(NamedTuple):
    """Prices from low to high, (limits,). `reach` is half the relative width; infinity if there is no box yet."""

    low: Floats
    high: Floats
    reach: float

    def holds(self, prices: Floats) -> bool:
        """Return whether prices are inside the box. Only prices of 0 may lie on its border."""
        inside = ((prices > self.low) | (self.low == 0.0)) & (prices < self.high)
        return bool(np.all(inside))


NO_BOX = Box(np.zeros(0), np.zeros(0), np.inf)


class Near(NamedTuple):
    """The rows that are open in a box, in the program's order.

    room: (limits,) what the fixed rows leave of the capacity.
    gain: what the fixed rows gain together.
    """

    box: Box
    order: Ints
    room: Floats
    gain: float

    @property
    def is_possible(self) -> bool:
        """Whether the fixed rows fit the limits."""
        return bool(np.all(self.room >= 0.0))


class Known(NamedTuple):
    """The state of each row in the held box, and the picks of fixed rows. Both are kept between solves."""

    state: NDArray[np.int8]
    pick: Ints

    def most(self, order: Ints) -> bool:
        """Return whether the states of most rows of the order are known."""
        return 2 * int(np.count_nonzero(self.state[order] == UNKNOWN)) <= len(order)

    def picks(self) -> Ints:
        """Return picks by row: those of the fixed rows, and NOTHING for others."""
        return np.where(self.state == FIXED, self.pick, NOTHING)


class Program(NamedTuple):
    """A program as compiled code reads it: its rows, its columns and the capacities of its limits."""

    rows: Rows
    columns: Columns
    capacity: Floats

    def only(self, order: Ints) -> Rows:
        """Return these rows alone."""
        return self.rows._replace(order=order)


@step
def _fixed_pick(rows: Rows, columns: Columns, row: int, low_cost: Floats, high_cost: Floats) -> tuple[bool, int]:
    """Return whether one pick is a row's best at all costs between low and high, and that pick."""
    least, pick = best_of(rows, row, high_cost)
    column = column_of(rows, row, pick)
    own = columns.group[column] if column >= 0 else -1
    if rows.required[row] or (pick != NOTHING and least <= 0.0):
        return False, pick
    # Against picks of other groups the worst case is that its own group costs most and the others least. Within a
    # concave group all costs move together, so the worst case is one end of the box or the other.
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
            # `best_of` has just found the peak at the highest prices. At lower prices it is no earlier.
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
def _fix(
    rows: Rows, columns: Columns, low: Floats, high: Floats, state: NDArray[np.int8], picks: Ints, room: Floats
) -> tuple[Ints, float]:
    """Decide on the rows whose state is UNKNOWN. Return the open rows, and what the fixed ones gain.

    States and picks of fixed rows are written, and their usage is taken from `room`.
    """
    low_cost, high_cost = np.empty(len(columns.begin) - 1), np.empty(len(columns.begin) - 1)
    costs(columns, low, low_cost)
    costs(columns, high, high_cost)
    found = np.empty(len(rows.order), np.int64)
    n, gain = 0, 0.0
    for row in rows.order:
        if state[row] == UNKNOWN:
            fixed, pick = _fixed_pick(rows, columns, row, low_cost, high_cost)
            state[row] = FIXED if fixed else OPEN
            if fixed:
                picks[row] = pick
        if state[row] == FIXED:
            gain += gain_of(rows, row, picks[row])
            column = column_of(rows, row, picks[row])
            if column >= 0:
                for e in range(columns.begin[column], columns.begin[column + 1]):
                    room[columns.limit[e]] -= columns.amount[e]
        else:
            found[n] = row
            n += 1
    return found[:n], gain


def everywhere(program: Program) -> Near:
    """Return the box of all prices, in which all rows are open."""
    size = len(program.capacity)
    return Near(
        Box(np.zeros(size), np.full(size, np.inf), np.inf), program.rows.order, program.capacity.copy(), 0.0
    )


def box_around(prices: Floats, reach: float, typical: float) -> Box:
    """Return the box of half the relative width `reach` around prices. `typical` is about the cost of a unit."""
    half = reach * np.maximum(prices + _FLOOR * typical, TOLERANCE)
    return Box(np.maximum(prices - half, 0.0), prices + half, reach)


def near_in(program: Program, box: Box, known: Known) -> Near:
    """Return what is open in a box for which the known states hold. UNKNOWN states are decided and written."""
    room = program.capacity.copy()
    order, gain = _fix(program.rows, program.columns, box.low, box.high, *known, room)
    return Near(box, order, room, gain)


def nearer(program: Program, near: Near, box: Box, known: Known) -> Near:
    """Return what is open in the part of `box` that lies in the box of `near`. Known states are written."""
    box = Box(np.maximum(box.low, near.box.low), np.minimum(box.high, near.box.high), box.reach)
    known.state[near.order] = UNKNOWN
    room = near.room.copy()
    order, gain = _fix(program.only(near.order), program.columns, box.low, box.high, *known, room)
    return Near(box, order, room, near.gain + gain)


def near_around(program: Program, known: Known, held: Box, prices: Floats, reach: float, typical: float) -> Near:
    """Return what is open around prices. The held box stays in use while it contains them and is not too wide."""
    if held.reach > _TOO_WIDE * reach or not known.most(program.rows.order) or not held.holds(prices):
        held = box_around(prices, reach, typical)
        known.state[:] = UNKNOWN
    return near_in(program, held, known)


def seek(
    program: Program, known: Known, held: Box, ahead: float, reach: float, aim: Aim, prices: Floats
) -> tuple[Near, int, float]:
    """Improve `prices` in place. Return what is open around them, the passes over rows, and the bound.

    At first only rows are looked at that are open in a box of relative size `ahead`. If prices leave the box,
    wider ones are tried, and at last all rows are open. The returned box reaches as far as `reach`.
    """
    passes = 0
    for _ in range(_BOXES):
        near = near_around(program, known, held, prices, ahead, aim.typical)
        held = near.box
        more, dual = _find(program, near, aim, prices)
        passes += more
        if held.holds(prices):
            if held.reach > _TOO_WIDE * reach:
                near = nearer(program, near, box_around(prices, reach, aim.typical), known)
            return near, passes, dual
        ahead = max(_WIDER * ahead, reach)
    more, dual = _find(program, everywhere(program), aim, prices)
    return near_around(program, known, held, prices, reach, aim.typical), passes + more, dual


def _find(program: Program, near: Near, aim: Aim, prices: Floats) -> tuple[int, float]:
    given = program.only(near.order), program.columns, near.room, near.box.low, near.box.high
    passes, dual = find_prices(*given, prices, aim)
    return passes, near.gain + dual


def bound_at(program: Program, near: Near, prices: Floats) -> float:
    """Return the Lagrangian bound of the whole program at prices within the box of `near`."""
    return near.gain + dual_value(program.only(near.order), program.columns, near.room, prices)[0]
