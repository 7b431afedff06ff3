"""The LP's optimum from prices that are near its own: what nearly all rows pick is known of there; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from .near import Near, dual_near, everywhere, is_inside, nearest, settled_picks
from .plan import take_again, take_best
from .rows import NOTHING, Columns, Floats, Ints, Rows, some_of
from .simplex import Entering, cheapest_growth, from_plan, nothing_first, optimise, those_before, torn_rows
from .whole import around, lifted, unserved

_LIFT, _TOLERANCE = 1e-6, 1e-9  # of capacities; of prices and gains
_PIVOTS = 50  # at most, a row


class Vertex(NamedTuple):
    """picks: the keys, by row; prices: (limits,); the dual there; torn: its rows.

    basic: what is basic beside the keys.
    """

    picks: Ints
    prices: Floats
    dual: float
    torn: Ints
    pivots: int
    basic: Entering


@kernel
def find_vertex(
    rows: Rows,
    columns: Columns,
    capacity: Floats,
    state: NDArray[np.int8],
    settled: Ints,
    key: Ints,
    near: Near,
    prices: Floats,
    dual: float,
    typical: float,
    base: Ints,
    before: Entering,
    enough: float,
) -> Vertex:
    """The optimum of the relaxation, or what is within `enough` of it.

    prices, dual, typical: with which it begins, and what a unit costs, about. base: picks of required rows, or
    nothing. before: what was basic at the last vertex, where that may be near, or nothing. key: picks there,
    written.
    """
    picks = settled_picks(state, settled)
    level = nearest(rows, columns, near, prices, typical, picks)
    # A little more than the capacity, so that no two basic variables tie.
    room, step = lifted(level.room, _LIFT), 0
    fits = True
    for left in level.room:
        fits = fits and left >= 0.0
    if not fits:
        level, step, room = everywhere(rows, capacity), 2, lifted(capacity, _LIFT)
        picks[:] = NOTHING
    rest = level.order
    if len(before.row) > 0:
        rest = take_again(some_of(rows, level.order), columns, key, picks, room)
    take_best(some_of(rows, rest), columns, prices, picks, room)
    if len(base) > 0 and unserved(rows, picks):
        level, step = everywhere(rows, capacity), 2
        picks, room = around(rows, columns, capacity, prices, base, _LIFT)
    basis, began = from_plan(picks, room), level.order
    if len(before.row) > 0:
        first = those_before(rows, before, key)
    else:
        first = cheapest_growth(some_of(rows, level.order), columns, basis, prices)
    pivots, most, better = 0, _PIVOTS * len(rows.order), np.empty(len(prices))
    while True:
        _, more = optimise(some_of(rows, level.order), columns, basis, first, _TOLERANCE, enough, most)
        pivots += more
        for u in range(len(prices)):
            better[u] = max(basis.prices[u], 0.0)
        if step == 2 or is_inside(better, level.low, level.high):
            break
        step += 1
        level, first = (near if step == 1 else everywhere(rows, capacity)), nothing_first()
    for row in began:
        key[row] = picks[row]
    found = dual_near(rows, columns, level, better)
    if found < dual:
        prices, dual = better, found
    return Vertex(picks, prices, dual, torn_rows(basis), pivots, Entering(basis.row, basis.pick))
