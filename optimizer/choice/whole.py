"""Plans whose rows all have one pick, within the capacities: from prices and what is whole of a vertex."""

from __future__ import annotations

import numpy as np

from .exact import SLACK
from .near import Near
from .plan import fill, is_left, take_best, worths
from .problem import TOLERANCE
from .rows import NOTHING, Floats, Ints
from .snapshot import Snapshot

_FILL_ROUNDS = 20
_FIRST, _MORE = 16, 4  # rows that make way at first for required ones; times as many, where these are too few


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
    if base is not None and unserved(snapshot, picks) and not _make_way(snapshot, prices, picks, room):
        picks[:], room = around(snapshot, prices, base, np.zeros(len(room)))
    fill_up(snapshot, near, prices, picks, room)


def _make_way(snapshot: Snapshot, prices: Floats, picks: Ints, room: Floats) -> bool:
    """Whether the required rows that have nothing could be served first where others gain least by what they have.

    These others then take what is best for them and still fits. Writes picks and room, which are of use if so.
    """
    rows, columns = snapshot.rows, snapshot.columns
    has = picks[rows.order] != NOTHING
    required = rows.required[rows.order]
    waiting, others = rows.order[required & ~has], rows.order[~required & has]
    worth = worths(rows._replace(order=others), columns, prices, picks)
    others = others[np.argsort(worth, kind="stable")]
    count = _FIRST
    while True:
        some = np.sort(np.concatenate([waiting, others[:count]]))
        picks[some] = NOTHING
        room[:] = snapshot.room(picks)
        take_best(rows._replace(order=some), columns, prices, picks, room)
        if not unserved(snapshot, picks):
            return True
        if count >= len(others):
            return False
        count *= _MORE


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
