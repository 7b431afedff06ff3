"""What rows may still pick where a plan is at hand: what no better plan can hold is left out; partly compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..compiled import kernel
from .rows import STAY, Columns, Flags, Floats, Ints, Rows, best_of, column_of, costs, gain_of
from .snapshot import Snapshot

_SLACK = 1e-9  # by which rounding may exceed a capacity
_MOST_SIZE, _MOST_UNITS = 2**40, 2**62  # units that a pick takes, and that a limit has


class Open(NamedTuple):
    """Options by row, in the order in which rows are searched; of limits there are whole units.

    row: (rows,) in the program; must: (rows,) whether it has to pick something. Its options are begin[i] ..
    begin[i + 1]: `pick` of the row takes `size` units of `limit` and gains `gain`. capacity: (limits,).
    """

    row: Ints
    must: Flags
    begin: Ints
    pick: Ints
    limit: Ints
    size: Ints
    gain: Floats
    capacity: Ints

    @property
    def place(self) -> Ints:
        """(options,) of their rows."""
        return np.repeat(np.arange(len(self.row)), np.diff(self.begin))


@dataclass(frozen=True)
class Settled:
    """Rows of which only one pick is left, what that is, and what they gain together."""

    row: Ints
    pick: Ints
    gain: float


class _Listed(NamedTuple):
    """place: (options,) of their rows in the order; pick, column and gain of each; worth: (rows,) of the best."""

    place: Ints
    pick: Ints
    column: Ints
    gain: Floats
    worth: Floats


@kernel
def _list(rows: Rows, columns: Columns, prices: Floats, budget: float) -> _Listed:
    """What loses at most `budget` at the prices; nothing is not listed."""
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    listed = _Listed(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))
    worth = np.empty(len(rows.order))
    for fill in range(2):
        count = 0
        for i in range(len(rows.order)):
            row = rows.order[i]
            if fill == 0:
                worth[i] = best_of(rows, row, cost)[0]
            for g in range(STAY, len(rows.concave)):  # what is no group is a pick by itself
                begin, end = (rows.begin[row, g], rows.end[row, g]) if g >= 0 else (g, g + 1)
                for k in range(begin, end):
                    column = column_of(rows, row, k)
                    if column < 0 or worth[i] - (gain_of(rows, row, k) - cost[column]) > budget:
                        continue
                    if fill:
                        listed.place[count], listed.pick[count] = i, k
                        listed.column[count], listed.gain[count] = column, gain_of(rows, row, k)
                    count += 1
        if fill == 0:
            ints = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
            listed = _Listed(ints[0], ints[1], ints[2], np.empty(count), worth)
    return listed


def opened(snapshot: Snapshot, prices: Floats, budget: float) -> tuple[Open, Floats] | None:
    """What loses at most `budget` at prices of limits, rows that take large parts of them first.

    Also returned: (rows,) what the best of each is worth at these prices. None: something takes of several limits
    at once, or parts of a unit.
    """
    rows, columns = snapshot.everything, snapshot.columns
    place, pick, column, gain, worth = _list(rows, columns, prices, budget)
    uses = np.diff(columns.begin)[column]
    if (uses > 1).any() or not len(columns.limit):
        return None
    entry = np.where(uses, columns.begin[column], 0)
    amount = np.where(uses, columns.amount[entry], 0.0)
    limit = np.where(uses, columns.limit[entry], 0)
    capacity = np.floor(np.minimum(snapshot.capacity + _SLACK, _MOST_UNITS)).astype(np.int64)
    size = np.rint(np.minimum(amount, _MOST_SIZE)).astype(np.int64)
    if (size != amount).any():
        return None
    part = np.zeros(len(rows.order))
    np.maximum.at(part, place, size / np.maximum(capacity[limit], 1))
    first = np.argsort(-part, kind="stable")
    rank = np.empty_like(first)
    rank[first] = np.arange(len(first))
    by_row = np.argsort(rank[place], kind="stable")
    return Open(
        row=rows.order[first],
        must=(rows.required[rows.order] | (worth > budget))[first],
        begin=np.concatenate([[0], np.cumsum(np.bincount(rank[place], minlength=len(first)))]),
        pick=pick[by_row],
        limit=limit[by_row],
        size=size[by_row],
        gain=gain[by_row],
        capacity=capacity,
    ), worth[first]


def narrowed(opened: Open, keep: Flags) -> tuple[Open, Flags, Settled]:
    """With these options alone: what is open then, which rows are, and those of which only one pick is left."""
    rows, limits, place = len(opened.row), len(opened.capacity), opened.place
    keep = keep & (opened.size <= opened.capacity[opened.limit])
    while True:
        count = np.bincount(place[keep], minlength=rows)
        is_settled = opened.must & (count == 1)
        out = keep & is_settled[place]
        capacity = opened.capacity.copy()
        np.subtract.at(capacity, opened.limit[out], opened.size[out])
        fits = out | (opened.size <= capacity[opened.limit])
        if fits[keep].all():
            break
        keep = keep & fits  # what is settled leaves too little for the others
    is_left = ~is_settled & (opened.must | (count > 0))
    left = np.flatnonzero(keep & is_left[place])
    limit, size = opened.limit[left], opened.size[left]
    pairs, pair = np.unique(place[left] * limits + limit, return_inverse=True)
    largest, total = np.zeros(len(pairs), np.int64), np.zeros(limits, np.int64)
    np.maximum.at(largest, pair, size)
    np.add.at(total, pairs % limits, largest)
    unit = np.zeros(limits, np.int64)
    np.gcd.at(unit, limit, size)
    unit = np.maximum(unit, 1)
    capacity = np.minimum(capacity, total) // unit  # of more no packing could make use
    return (
        Open(
            row=opened.row[is_left],
            must=opened.must[is_left],
            begin=np.concatenate([[0], np.cumsum(count[is_left])]),
            pick=opened.pick[left],
            limit=limit,
            size=size // unit[limit],
            gain=opened.gain[left],
            capacity=capacity,
        ),
        is_left,
        Settled(opened.row[place[out]], opened.pick[out], float(opened.gain[out].sum())),
    )
