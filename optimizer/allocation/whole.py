"""Plans whose rows all have one pick, within the capacities: from prices and what is whole of a vertex."""

from __future__ import annotations

import numpy as np

from ..compiled import kernel
from .exact import SLACK
from .near import Near
from .plan import fill, is_left, take, take_best, worths
from .problem import TOLERANCE
from .rows import NOTHING, Columns, Floats, Ints, Rows, some_of
from .snapshot import Snapshot

NOTHING_BEFORE = np.empty(0)  # no plan before
_FILL_ROUNDS, _GOLDEN = 20, 0.618
_FIRST, _MORE = 16, 4  # rows that make way at first for required ones; times as many, where these are too few


def make_whole(snapshot: Snapshot, near: Near, prices: Floats, picks: Ints, torn: Ints, base: Ints | None) -> None:
    """A plan within the capacities: what is whole of the vertex, the torn rows anew, and what is left filled."""
    columns = snapshot.columns
    room = _keep_whole(snapshot.rows, columns, snapshot.capacity, prices, picks, torn)
    if base is not None and unserved(snapshot.rows, picks) and not _make_way(snapshot, prices, picks, room):
        picks[:], room = around(*snapshot.frame, prices, base, 0.0)
    fill_up(snapshot.everything, columns, near.order, prices, picks, room, NOTHING_BEFORE)


@kernel
def _keep_whole(rows: Rows, columns: Columns, capacity: Floats, prices: Floats, picks: Ints, torn: Ints) -> Floats:
    """The torn rows pick anew; where what is whole fits with the little more only, all rows do. What is left."""
    for row in torn:
        picks[row] = NOTHING
    room, fit = capacity.copy(), True
    take(rows, columns, picks, room)
    for left in room:
        fit = fit and left >= -SLACK
    if fit:
        take_best(some_of(rows, torn), columns, prices, picks, room)
        return room
    picks[:] = NOTHING
    room = capacity.copy()
    take_best(rows, columns, prices, picks, room)
    return room


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
        if not unserved(rows, picks):
            return True
        if count >= len(others):
            return False
        count *= _MORE


@kernel
def fill_up(
    everything: Rows, columns: Columns, near: Ints, prices: Floats, picks: Ints, room: Floats, before: Floats
) -> None:
    """Give away what is left: to the rows `near`, which are open near the prices, first, which mostly is enough.

    before: what was left of a plan in which all other rows had the same picks, and did not want it; or nothing.
    """
    fill(some_of(everything, near), columns, prices, picks, room, TOLERANCE, _FILL_ROUNDS)
    more = len(before) == 0
    for i in range(len(before)):
        more = more or room[i] > before[i]
    if more and len(near) < len(everything.order) and is_left(columns, prices, room):
        fill(everything, columns, prices, picks, room, TOLERANCE, _FILL_ROUNDS)


def fill_rest(snapshot: Snapshot, near: Near, prices: Floats, picks: Ints) -> None:
    """Give away what the picks leave."""
    room = snapshot.room(picks)
    fill_up(snapshot.everything, snapshot.columns, near.order, prices, picks, room, NOTHING_BEFORE)


@kernel
def unserved(rows: Rows, picks: Ints) -> bool:
    """Whether a row that is required has nothing."""
    found = False
    for row in rows.order:
        found = found or (rows.required[row] and picks[row] == NOTHING)
    return found


@kernel
def around(
    rows: Rows, columns: Columns, capacity: Floats, prices: Floats, base: Ints, lift: float
) -> tuple[Ints, Floats]:
    """A plan in which the required rows have their picks of `base`, and what it leaves of the capacity.

    lift: by how much of each the capacity counts as larger, by amounts unlike each other.
    """
    picks, room, others, n = base.copy(), lifted(capacity, lift), np.empty(len(rows.order), np.int64), 0
    take(rows, columns, picks, room)
    for row in rows.order:
        if not rows.required[row]:
            others[n] = row
            n += 1
    take_best(some_of(rows, others[:n]), columns, prices, picks, room)
    return picks, room


@kernel
def lifted(room: Floats, lift: float) -> Floats:
    """A little more, by amounts unlike each other, so that no two basic variables tie."""
    more = np.empty(len(room))
    for i in range(len(room)):
        more[i] = room[i] + lift * (1.0 + i * _GOLDEN % 1.0)
    return more
