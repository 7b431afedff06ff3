"""Prices from those of the last solve, sought among the rows that are open around them; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from .near import Box, Near, everywhere, is_inside, near_around, shrunk
from .prices import find_prices
from .rows import Columns, Floats, Ints, Rows, some_of

_BOXES, _WIDER = 3, 2.0  # boxes, each so many times as wide, before all rows are looked at


class Aim(NamedTuple):
    """How near prices are sought: to shares of a `width`, until a step gains less than `enough`, both as worths.

    A first step may go by a `reach` of every price, and of a `typical` one.
    """

    width: float
    enough: float
    reach: float
    typical: float


@kernel
def seek(
    rows: Rows,
    columns: Columns,
    capacity: Floats,
    state: NDArray[np.int8],
    settled: Ints,
    near: Near,
    held: Box,
    ahead: float,
    reach: float,
    aim: Aim,
    prices: Floats,
) -> tuple[Near, Box, int, float]:
    """Writes better `prices`; (what is open within `reach` of them, its box, passes over rows, the dual).

    Looked at are rows that are open within `ahead` of them, as a part of every price, or where that is 0 those of
    `near`; where prices leave that box rows that are open in wider ones, and at last all.
    """
    passes, few = 0, some_of(rows, near.order)
    for _ in range(_BOXES):
        if ahead > 0.0:
            near, held = near_around(rows, columns, capacity, state, settled, held, prices, ahead, aim.typical)
            few = some_of(rows, near.order)
        more, dual = _find(few, columns, near, aim, prices)
        passes += more
        if is_inside(prices, near.low, near.high):
            near, held = shrunk(rows, columns, state, settled, near, held, prices, reach, aim.typical)
            return near, held, passes, dual
        ahead = max(_WIDER * ahead, reach)
    more, dual = _find(rows, columns, everywhere(rows, capacity), aim, prices)
    near, held = near_around(rows, columns, capacity, state, settled, held, prices, reach, aim.typical)
    return near, held, passes + more, dual


@kernel
def _find(rows: Rows, columns: Columns, near: Near, aim: Aim, prices: Floats) -> tuple[int, float]:
    low, high, width = near.low, near.high, aim.width
    passes, dual = find_prices(
        rows, columns, near.room, low, high, prices, width, width, aim.enough, aim.reach, aim.typical
    )
    return passes, near.gain + dual
