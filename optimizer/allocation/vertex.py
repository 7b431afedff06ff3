"""Finds the LP's optimal vertex from prices near its own, at which most rows are fixed and take no part."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .box import SMALL_REACH, UNKNOWN, Known, Near, Program, bound_at, box_around, everywhere, nearer
from .options import NOTHING, Floats, Ints
from .rounding import around, take_best, unserved
from .simplex import NONE_FIRST, cheapest_growth, from_plan, optimise, split_rows

_LIFT, _GOLDEN = 1e-6, 0.618  # about how much is added to capacities; spreads the amounts
_TOLERANCE = 1e-9  # of prices and gains
_PIVOTS = 50  # per row, at most


class Vertex(NamedTuple):
    """A vertex of the LP relaxation.

    picks: one basic option of each row.
    prices: (limits,) the prices that prove `bound`.
    split: the fractional rows.
    """

    picks: Ints
    prices: Floats
    bound: float
    split: Ints
    pivots: int


def find_vertex(
    program: Program,
    known: Known,
    near: Near,
    prices: Floats,
    bound: float,
    typical: float,
    base: Ints | None,
    enough: float,
) -> Vertex:
    """Return a vertex of the LP relaxation whose value is within `enough` of the optimum.

    The search begins at `prices`, which prove `bound`. `typical` is about what a unit of a limit costs. `base` are
    picks that serve the required rows; None if there are no such rows.
    """
    rows, columns, capacity = program
    picks = known.picks()
    level = nearer(
        program, near, box_around(prices, SMALL_REACH, typical), Known(np.full_like(known.state, UNKNOWN), picks)
    )
    wider = [near, everywhere(program)]
    if not level.is_possible:
        level, wider, picks[:] = everywhere(program), [], NOTHING
    room = lifted(level.room)
    take_best(program.only(level.order), columns, prices, picks, room)
    if base is not None and unserved(rows, picks).any():
        level, wider = everywhere(program), []
        picks, room = around(program, lifted(capacity), prices, base)
    basis, pivots = from_plan(picks, room), 0
    first = cheapest_growth(program.only(level.order), columns, basis, prices)
    while True:
        most = _PIVOTS * len(rows.order)
        _, more = optimise(program.only(level.order), columns, basis, first, _TOLERANCE, enough, most)
        pivots += more
        better = np.maximum(basis.prices, 0.0)
        if not wider or level.box.holds(better):
            break
        level, first = wider.pop(0), NONE_FIRST
    found = bound_at(program, level, better)
    if found < bound:
        prices, bound = better, found
    return Vertex(picks, prices, bound, split_rows(basis), pivots)


def lifted(room: Floats) -> Floats:
    """Return a little more than `room`, by different amounts, so that no two basic variables tie."""
    return room + _LIFT * (1.0 + np.arange(len(room)) * _GOLDEN % 1.0)
