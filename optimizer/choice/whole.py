"""Plans whose rows all have one pick, within the capacities: from prices and what is whole of a vertex."""

from __future__ import annotations

import numpy as np

from .exact import SLACK
from .near import Near
from .plan import fill, is_left, take_best
from .problem import TOLERANCE
from .rows import NOTHING, Floats, Ints
from .snapshot import Snapshot

_FILL_ROUNDS = 20


def make_whole(snapshot: Snapshot, near: Near, prices: Floats, picks: Ints, torn: Ints, base: Ints | None) -> None:
    """A plan within the capacities: what is whole of the vertex, the torn rows anew, and what is left filled."""
    rows, columns = snapshot.rows, snapshot.columns
    picks[torn] = NOTHING
    room = snapshot.room(picks)
    if (room < -SLACK).any():  # what is whole fits with the little more only
        picks[:] = NOTHING
        room = snapshot.capacity.copy()
        take_best(rows, columns, prices, picks, room)
    else:
        take_best(rows._replace(order=np.sort(torn)), columns, prices, picks, room)
    if base is not None and unserved(snapshot, picks):
        picks[:], room = around(snapshot, prices, base, np.zeros(len(room)))
    fill_up(snapshot, near, prices, picks, room)


def fill_up(
    snapshot: Snapshot,
    near: Near,
    prices: Floats,
    picks: Ints,
    room: Floats,
    before: Floats | None = None,
) -> None:
    """Give away what is left: to rows that are open near the prices first, which mostly is enough.

    before: what was left of a plan in which all other rows had the same picks, and did not want it.
    """
    columns, all_rows = snapshot.columns, snapshot.everything
    few = all_rows._replace(order=near.rows.order)
    fill(few, columns, prices, picks, room, TOLERANCE, _FILL_ROUNDS)
    if before is not None and (room <= before).all():
        return
    if len(near.rows.order) < len(all_rows.order) and is_left(columns, prices, room):
        fill(all_rows, columns, prices, picks, room, TOLERANCE, _FILL_ROUNDS)


def unserved(snapshot: Snapshot, picks: Ints) -> bool:
    order = snapshot.rows.order
    return bool((picks[order[snapshot.rows.required[order]]] == NOTHING).any())


def around(snapshot: Snapshot, prices: Floats, base: Ints, lift: Floats) -> tuple[Ints, Floats]:
    """A plan in which the required rows have their picks of `base`, and what it leaves of the capacity."""
    picks = base.copy()
    room = snapshot.room(picks) + lift
    order = snapshot.rows.order
    others = snapshot.rows._replace(order=order[~snapshot.rows.required[order]])
    take_best(others, snapshot.columns, prices, picks, room)
    return picks, room
