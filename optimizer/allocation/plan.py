"""A whole pick for every row, within the capacities, from prices; compiled."""

from __future__ import annotations

import numpy as np

from ..compiled import kernel, step
from .rows import (
    NOTHING,
    STAY,
    UNKNOWN_PICK,
    WORST,
    Columns,
    Flags,
    Floats,
    Ints,
    Rows,
    by_rising,
    column_of,
    costs,
    gain_of,
    peak,
)


@step
def fits(columns: Columns, old: int, new: int, room: Floats) -> bool:
    """Whether a row may go from one column to another (-1: none) within `room`: (limits,)."""
    if new < 0:
        return True
    if columns.barred[new]:
        return False
    for e in range(columns.begin[new], columns.begin[new + 1]):
        limit, more = columns.limit[e], columns.amount[e]
        if old >= 0:
            for f in range(columns.begin[old], columns.begin[old + 1]):
                if columns.limit[f] == limit:
                    more -= columns.amount[f]
        if more > 0.0 and more > room[limit]:
            return False
    return True


@step
def move(columns: Columns, old: int, new: int, room: Floats) -> None:
    """Take the change out of `room`."""
    if old >= 0:
        for e in range(columns.begin[old], columns.begin[old + 1]):
            room[columns.limit[e]] += columns.amount[e]
    if new >= 0:
        for e in range(columns.begin[new], columns.begin[new + 1]):
            room[columns.limit[e]] -= columns.amount[e]


@kernel
def _within_reach(columns: Columns, groups: int, room: Floats) -> Flags:
    """(groups + 1, groups): where something may fit in place of a column of each group, and in place of none.

    These are groups of which some column fits beside all there is, and those that use a limit the old one uses.
    """
    limits = len(room)
    uses = np.zeros((groups + 1, limits), np.bool_)
    found = np.zeros((groups + 1, groups), np.bool_)
    for c in range(len(columns.begin) - 1):
        for e in range(columns.begin[c], columns.begin[c + 1]):
            uses[columns.group[c], columns.limit[e]] = True
        if fits(columns, NOTHING, c, room):
            found[:, columns.group[c]] = True
    for h in range(groups):
        for g in range(groups):
            for u in range(limits):
                found[g, h] = found[g, h] or (uses[g, u] and uses[h, u])
    return found


@step
def best_that_fits(
    rows: Rows, columns: Columns, row: int, now: int, cost: Floats, room: Floats, least: float, within: Flags
) -> tuple[float, int]:
    """(worth, pick) of what is worth most among what fits in place of the pick `now` and gains at least `least`.

    Of a row that is not required that may be nothing, if `least` is no more than 0; (WORST, `now`): there is none.
    Other options are looked at in groups that `within` has at the group of `now`: (groups + 1, groups).
    """
    old = column_of(rows, row, now)
    reach = within[columns.group[old] if old >= 0 else len(rows.concave)]
    best, pick = WORST, now
    if least <= 0.0 and not rows.required[row]:
        best, pick = 0.0, NOTHING
    stay = rows.stay_column[row]
    stay_worth = rows.stay_gain[row] - cost[stay] if stay >= 0 and rows.stay_gain[row] >= least else WORST
    if stay_worth > WORST and stay_worth >= best and fits(columns, old, stay, room):
        best, pick = stay_worth, STAY
    offset, scale = rows.offset[row], rows.scale[row]
    for g in range(len(rows.concave)):
        if not reach[g]:
            continue
        begin, end = rows.begin[row, g], rows.end[row, g]
        if rows.rising[g]:
            # Options take and gain more and more: the first ones fit, the last ones gain enough.
            if begin == end or not fits(columns, old, column_of(rows, row, begin), room):
                continue
            last = end
            while begin < last:
                middle = (begin + last) >> 1
                if offset + scale * rows.value[middle] >= least:
                    last = middle
                else:
                    begin = middle + 1
            if begin == end or not fits(columns, old, column_of(rows, row, begin), room):
                continue
            last = peak(rows, row, g, begin, cost) if rows.concave[g] else end - 1
            low = begin
            while low < last:
                middle = (low + last + 1) >> 1
                if fits(columns, old, column_of(rows, row, middle), room):
                    low = middle
                else:
                    last = middle - 1
            begin, end = (low if rows.concave[g] else begin), low + 1
        for k in range(begin, end):
            gain = offset + scale * rows.value[k]
            worth = gain - cost[rows.column[k]]
            if worth > best and gain >= least and fits(columns, old, column_of(rows, row, k), room):
                best, pick = worth, k
    return best, pick


@step
def _best_and_regret(rows: Rows, row: int, cost: Floats) -> tuple[int, float]:
    """The pick that `best_of` has, and what the row loses at the prices if it cannot have that."""
    best, pick, second = (WORST if rows.required[row] else 0.0), NOTHING, WORST
    stay = rows.stay_column[row]
    if stay >= 0:
        worth = rows.stay_gain[row] - cost[stay]
        if worth >= best:
            best, pick, second = worth, STAY, best
        else:
            second = worth
    offset, scale = rows.offset[row], rows.scale[row]
    for g in range(len(rows.concave)):
        begin, end = rows.begin[row, g], rows.end[row, g]
        if begin == end:
            continue
        first, last = begin, end
        if rows.concave[g]:
            first = peak(rows, row, g, begin, cost)
            last = first + 1
            for k in (first - 1, first + 1):
                if begin <= k < end:
                    second = max(second, offset + scale * rows.value[k] - cost[rows.column[k]])
        for k in range(first, last):
            worth = offset + scale * rows.value[k] - cost[rows.column[k]]
            if worth > best:
                best, pick, second = worth, k, max(best, second)
            else:
                second = max(second, worth)
    return pick, min(best - second, -WORST)


@kernel
def take_best(rows: Rows, columns: Columns, prices: Floats, picks: Ints, room: Floats) -> None:
    """Rows take what is worth most at the prices and still fits.

    First those that are required, then those that would lose most by missing it, then those that come first.
    `picks` of these rows must be NOTHING and is written; `room` shrinks.
    """
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    relief, wanted = np.empty(len(rows.order)), np.empty(len(rows.order), np.int64)
    for i in range(len(rows.order)):
        wanted[i], regret = _best_and_regret(rows, rows.order[i], cost)
        relief[i] = -np.inf if rows.required[rows.order[i]] else -regret
    within = np.ones((len(rows.concave) + 1, len(rows.concave)), np.bool_)
    for i in by_rising(relief):
        row, pick = rows.order[i], wanted[i]
        column = column_of(rows, row, pick)
        if not fits(columns, NOTHING, column, room):
            _, pick = best_that_fits(rows, columns, row, NOTHING, cost, room, WORST, within)
            column = column_of(rows, row, pick)
        picks[row] = pick
        move(columns, NOTHING, column, room)


@kernel
def worths(rows: Rows, columns: Columns, prices: Floats, picks: Ints) -> Floats:
    """What each of these rows gains by its pick beyond what that costs at the prices."""
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    found = np.empty(len(rows.order))
    for i in range(len(rows.order)):
        row = rows.order[i]
        column = column_of(rows, row, picks[row])
        found[i] = gain_of(rows, row, picks[row]) - (cost[column] if column >= 0 else 0.0)
    return found


@kernel
def take_again(rows: Rows, columns: Columns, before: Ints, picks: Ints, room: Floats) -> Ints:
    """Rows take what they had, `before` by row, where that is known and fits; returns the others."""
    rest = np.empty(len(rows.order), np.int64)
    n = 0
    for row in rows.order:
        pick = before[row]
        column = -1 if pick == UNKNOWN_PICK else column_of(rows, row, pick)
        if pick == UNKNOWN_PICK or (pick == STAY and column < 0) or not fits(columns, NOTHING, column, room):
            rest[n] = row
            n += 1
        else:
            picks[row] = pick
            move(columns, NOTHING, column, room)
    return rest[:n]


@step
def is_left(columns: Columns, prices: Floats, room: Floats) -> bool:
    """Whether some column takes no more of its limits than is left of them, of which one is worth something."""
    for c in range(len(columns.begin) - 1):
        fit, worth = True, 0.0
        for e in range(columns.begin[c], columns.begin[c + 1]):
            fit = fit and columns.amount[e] <= room[columns.limit[e]]
            worth += columns.amount[e] * prices[columns.limit[e]]
        if fit and worth > 0.0:
            return True
    return False


@kernel
def fill(
    rows: Rows,
    columns: Columns,
    prices: Floats,
    picks: Ints,
    room: Floats,
    least_gain: float,
    most_rounds: int,
) -> int:
    """Change single rows while that gains and fits: first what loses least at the prices, then what is left.

    Again and again, while anything is left that has a price. Returns the number of changes.
    """
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    changes = 0
    count = len(rows.order)
    loss, wanted, who = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
    # Rows that could not change, in so much room, cannot in less: those that could are `some`.
    some, enough = rows.order, room.copy()
    for _ in range(most_rounds):
        if (room > enough).any():
            some = rows.order
        enough[:] = room
        found = 0
        within = _within_reach(columns, len(rows.concave), room)
        for row in some:
            now = picks[row]
            more = gain_of(rows, row, now) + least_gain
            worth, pick = best_that_fits(rows, columns, row, now, cost, room, more, within)
            if pick != now:
                old = column_of(rows, row, now)
                has = gain_of(rows, row, now) - (cost[old] if old >= 0 else 0.0)
                loss[found], wanted[found], who[found] = has - worth, pick, row
                found += 1
        before = changes
        for i in by_rising(loss[:found]):
            row, pick = who[i], wanted[i]
            old, new = column_of(rows, row, picks[row]), column_of(rows, row, pick)
            if fits(columns, old, new, room):
                move(columns, old, new, room)
                picks[row] = pick
                changes += 1
        some = who[:found].copy()
        if changes == before or not is_left(columns, prices, room):
            break
    return changes


@step
def take(rows: Rows, columns: Columns, picks: Ints, room: Floats) -> None:
    """Take all picks of the rows out of `room`."""
    for row in rows.order:
        move(columns, NOTHING, column_of(rows, row, picks[row]), room)


@step
def objective(rows: Rows, picks: Ints) -> float:
    total = 0.0
    for row in rows.order:
        total += gain_of(rows, row, picks[row])
    return total
