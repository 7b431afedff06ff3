"""A plan straight from prices: where it is within the gap, nobody needs the LP's vertex.

The more rows there are, the more often it is: of 1,500 jobs at 5e-4 in every other round, of 500 in one of seven.
"""

from __future__ import annotations

import numpy as np

from .near import SETTLED, Near
from .plan import objective, take_best
from .rows import NOTHING, Floats
from .search import EXACT_ROWS, is_within
from .snapshot import Found, Snapshot
from .whole import fill_up


def take_at(snapshot: Snapshot, near: Near, prices: Floats, gap: float) -> Found | None:
    """What is best at the prices and fits, and what is left given away; None: that is not within the gap.

    Nor is it looked for where an exact search of all rows costs little, or where settled rows alone do not fit.
    """
    columns, room = snapshot.columns, near.room.copy()
    if len(snapshot.rows.order) <= EXACT_ROWS or (room < 0.0).any():
        return None
    picks = np.where(snapshot.state == SETTLED, snapshot.settled, NOTHING)
    dual = near.gain + float(prices @ room)
    dual += take_best(near.rows, columns, prices, picks, room)
    value = near.gain + objective(near.rows, picks)
    # Of the shortfall what is left unsold may yet be given away; what picks lose against the best hardly shrinks.
    if not is_within(gap, value + float(prices @ room), dual):
        return None
    fill_up(snapshot, near, prices, picks, room, unwanted=room.copy())
    value = objective(snapshot.rows, picks)
    return Found(picks, value, max(dual, value), prices, 0, 0) if is_within(gap, value, dual) else None
