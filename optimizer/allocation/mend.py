"""The last plan with what changed put right: where that is within the gap, nothing else is looked at.

The last prices bound whatever the program has become, and of most rows what they bring at them is known
(`near.py`). Rows that changed take what is best for them and fits, others keep what they had.
"""

from __future__ import annotations

from .memory import Memory
from .near import UNKNOWN, count_unknown, dual_near, nearest
from .plan import objective, take_again, take_best
from .rows import UNKNOWN_PICK
from .search import EXACT_ROWS, Sought, is_within, search_among
from .snapshot import Found, Snapshot
from .whole import NOTHING_BEFORE, fill_up

# Of the rows, how many may have changed, one at least: where more did hardly any plan can be mended.
_MOST_CHANGED = 0.01


def mend(snapshot: Snapshot, memory: Memory, gap: float, until_s: float) -> Found | None:
    """A plan within the gap, None: not found. It is not searched for after `until_s`, of time.perf_counter()."""
    order = snapshot.rows.order
    few = count_unknown(snapshot.state, order) <= max(_MOST_CHANGED * len(order), 1)
    if memory.prices is None or not few or len(order) <= EXACT_ROWS:
        return None
    snapshot.plan[order[snapshot.state[order] == UNKNOWN]] = UNKNOWN_PICK
    prices, columns = memory.prices, snapshot.columns
    near = memory.near(snapshot, prices, memory.ahead)
    picks, room = snapshot.no_picks(), snapshot.capacity.copy()
    others = take_again(snapshot.rows, columns, snapshot.plan, picks, room)
    take_best(snapshot.rows._replace(order=others), columns, prices, picks, room)
    left = NOTHING_BEFORE if memory.left is None else memory.left
    fill_up(snapshot.everything, columns, near.order, prices, picks, room, left)
    dual, value = dual_near(snapshot.rows, columns, near, prices), objective(snapshot.rows, picks)
    if not is_within(gap, value, dual):
        given = snapshot.rows, columns, near, prices, memory.typical(snapshot), picks.copy()
        sought = Sought(snapshot, near, prices, dual, gap, until_s)
        value = search_among(sought, nearest(*given).order, value, picks)
    if not is_within(gap, value, dual):
        return None
    return Found(picks, snapshot.room(picks), value, max(dual, value), prices, 0, 0)
