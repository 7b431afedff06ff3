"""What rows may still pick where a plan is at hand: what no better plan can hold is left out; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiled import kernel, step
from .rows import STAY, Columns, Flags, Floats, Ints, Rows, best_of, by_rising, column_of, costs, gain_of

_SLACK = 1e-9  # by which rounding may exceed a capacity
_MOST_SIZE, _MOST_UNITS = 2.0**40, 2.0**62  # units that a pick takes, and that a limit has


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


class Settled(NamedTuple):
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


@kernel
def opened(
    rows: Rows, columns: Columns, capacity: Floats, prices: Floats, budget: float
) -> tuple[bool, Open, Floats]:
    """What loses at most `budget` at prices of limits, rows that take large parts of them first.

    Also returned: (rows,) what the best of each is worth at these prices. First: whether it is of use, False where
    something takes of several limits at once, or parts of a unit.
    """
    listed = _list(rows, columns, prices, budget)
    count, options, whole = len(rows.order), len(listed.pick), len(columns.limit) > 0
    units = np.empty(len(capacity), np.int64)
    for u in range(len(capacity)):
        units[u] = np.int64(min(capacity[u] + _SLACK, _MOST_UNITS))
    limit, size = np.zeros(options, np.int64), np.zeros(options, np.int64)
    part, begin = np.zeros(count), np.zeros(count, np.int64)  # parts are less than 0, as the largest come first
    for k in range(options):
        first, last = columns.begin[listed.column[k]], columns.begin[listed.column[k] + 1]
        whole = whole and last - first <= 1
        if first < last:
            limit[k] = columns.limit[first]
            size[k] = np.int64(min(columns.amount[first], _MOST_SIZE))
            whole = whole and size[k] == columns.amount[first]
            i = listed.place[k]
            part[i] = min(part[i], -size[k] / max(units[limit[k]], 1))
        begin[listed.place[k]] += 1
    order, total = by_rising(part), np.int64(0)
    for i in order:  # from how many each row has to where they begin
        begin[i], total = total, total + begin[i]
    found = _room_for(count, options, units)
    worth = np.empty(count)
    for n in range(count):
        i = order[n]
        found.row[n], worth[n], found.begin[n] = rows.order[i], listed.worth[i], begin[i]
        found.must[n] = rows.required[rows.order[i]] or worth[n] > budget
    found.begin[count] = total
    for k in range(options):
        at = begin[listed.place[k]]
        begin[listed.place[k]] += 1
        found.pick[at], found.gain[at] = listed.pick[k], listed.gain[k]
        found.limit[at], found.size[at] = limit[k], size[k]
    return whole, found, worth


@kernel
def _room_for(rows: int, options: int, capacity: Ints) -> Open:
    return Open(
        np.empty(rows, np.int64),
        np.empty(rows, np.bool_),
        np.zeros(rows + 1, np.int64),
        np.empty(options, np.int64),
        np.empty(options, np.int64),
        np.empty(options, np.int64),
        np.empty(options),
        capacity,
    )


@kernel
def _settle(opened: Open, keep: Flags, is_settled: Flags, capacity: Ints) -> None:
    """Which rows have one option left and must have it, and what they leave; options that fit no more go."""
    gone = True
    while gone:
        gone = False
        capacity[:] = opened.capacity
        for i in range(len(opened.row)):
            count, last = 0, -1
            for k in range(opened.begin[i], opened.begin[i + 1]):
                if keep[k]:
                    count, last = count + 1, k
            is_settled[i] = opened.must[i] and count == 1
            if is_settled[i]:
                capacity[opened.limit[last]] -= opened.size[last]
        for i in range(len(opened.row)):
            for k in range(opened.begin[i], opened.begin[i + 1]):
                if keep[k] and not is_settled[i] and opened.size[k] > capacity[opened.limit[k]]:
                    keep[k], gone = False, True


@step
def _divisor(a: int, b: int) -> int:
    """The greatest of both."""
    while b:
        a, b = b, a % b
    return a


@kernel
def narrowed(opened: Open, wanted: Flags) -> tuple[Open, Flags, Settled]:
    """With these options alone: what is open then, which rows are, and those of which only one pick is left."""
    rows, limits = len(opened.row), len(opened.capacity)
    keep, is_settled, capacity = wanted.copy(), np.empty(rows, np.bool_), np.empty(limits, np.int64)
    for k in range(len(keep)):
        keep[k] = keep[k] and opened.size[k] <= opened.capacity[opened.limit[k]]
    _settle(opened, keep, is_settled, capacity)
    is_left, left, options, settled = np.zeros(rows, np.bool_), 0, 0, 0
    total, unit, most = np.zeros(limits, np.int64), np.zeros(limits, np.int64), np.zeros(limits, np.int64)
    for i in range(rows):
        settled += is_settled[i]
        count = 0
        most[:] = 0
        for k in range(opened.begin[i], opened.begin[i + 1]):
            if keep[k] and not is_settled[i]:
                count += 1
                u, size = opened.limit[k], opened.size[k]
                most[u], unit[u] = max(most[u], size), _divisor(unit[u], size)
        is_left[i] = not is_settled[i] and (opened.must[i] or count > 0)
        left, options = left + is_left[i], options + count
        for u in range(limits):
            total[u] += most[u]
    for u in range(limits):
        unit[u] = max(unit[u], 1)
        capacity[u] = min(capacity[u], total[u]) // unit[u]  # of more no packing could make use
    found = _room_for(left, options, capacity)
    alone = Settled(np.empty(settled, np.int64), np.empty(settled, np.int64), 0.0)
    gain, left, options, settled = 0.0, 0, 0, 0
    for i in range(rows):
        for k in range(opened.begin[i], opened.begin[i + 1]):
            if keep[k] and is_settled[i]:
                alone.row[settled], alone.pick[settled] = opened.row[i], opened.pick[k]
                gain += opened.gain[k]
                settled += 1
            elif keep[k]:
                found.pick[options], found.limit[options] = opened.pick[k], opened.limit[k]
                found.size[options], found.gain[options] = opened.size[k] // unit[opened.limit[k]], opened.gain[k]
                options += 1
        if is_left[i]:
            found.row[left], found.must[left] = opened.row[i], opened.must[i]
            left += 1
            found.begin[left] = options
    return found, is_left, Settled(alone.row, alone.pick, gain)
