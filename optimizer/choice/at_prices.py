"""A plan straight from prices: where it is within the gap, nobody needs the LP's vertex.

The more rows there are, the more often it is.
"""

from __future__ import annotations

from .near import Priced, settled_picks
from .plan import objective, take_best
from .search import EXACT_ROWS, is_within
from .snapshot import Found, Snapshot
from .whole import fill_up

# Rows take at prices higher by this part over the square root of their number: what does not fit costs more to
# mend than what is left, and the more rows there are, the smaller a part of them does not fit.
_DEARER = 2.4
_LEAST = 0.2  # rows' worth that the gap is: plans straight from prices hardly ever miss less


def take_at(snapshot: Snapshot, priced: Priced, gap: float) -> Found | None:
    """What is best at prices somewhat higher, and fits, and what is left given away; None: not within the gap.

    Nor is it looked for where an exact search of all rows costs little, where the gap is less than such plans
    mostly miss, or where settled rows alone do not fit.
    """
    near, prices, dual, passes = priced
    columns, room, count = snapshot.columns, near.room.copy(), len(snapshot.rows.order)
    if count <= EXACT_ROWS or gap * count < _LEAST or (room < 0.0).any():
        return None
    picks = settled_picks(snapshot)
    take_best(near.rows, columns, (1.0 + _DEARER * count**-0.5) * prices, picks, room)
    fill_up(snapshot, near, prices, picks, room, unwanted=room.copy())
    value = objective(snapshot.rows, picks)
    return Found(picks, room, value, max(dual, value), prices, passes, 0) if is_within(gap, value, dual) else None
