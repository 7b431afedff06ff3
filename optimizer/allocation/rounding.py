"""Makes plans that fit, guided by the prices: every row picks one option or none."""

from __future__ import annotations

import numpy as np

from ..compiled import kernel, step
from .box import Known, Near, Program
from .options import NOTHING, STAY, WORST, Columns, Flags, Floats, Ints, Rows, column_of, costs, gain_of, peak
from .problem import TOLERANCE

SLACK = 1e-9  # most that rounding errors may exceed a capacity by
_FILL_ROUNDS = 20


@step
def fits(columns: Columns, old: int, new: int, room: Floats) -> bool:
    """Return whether a row can change from one column to another (-1: none) within `room` (limits,)."""
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
    """Take from `room` what a row uses more after a change from one column to another (-1: none)."""
    if old >= 0:
        for e in range(columns.begin[old], columns.begin[old + 1]):
            room[columns.limit[e]] += columns.amount[e]
    if new >= 0:
        for e in range(columns.begin[new], columns.begin[new + 1]):
            room[columns.limit[e]] -= columns.amount[e]


@kernel
def _take_all(rows: Rows, columns: Columns, picks: Ints, room: Floats) -> None:
    for row in rows.order:
        move(columns, NOTHING, column_of(rows, row, picks[row]), room)


def room_left(program: Program, picks: Ints) -> Floats:
    """Return (limits,) what the picks leave of the capacity."""
    room = program.capacity.copy()
    _take_all(program.rows, program.columns, picks, room)
    return room


@step
def best_that_fits(
    rows: Rows, columns: Columns, row: int, now: int, cost: Floats, room: Floats, least: float
) -> tuple[float, int]:
    """Return (worth, pick) of a row's best option that fits in place of the pick `now` and gains at least `least`.

    The result is (WORST, `now`) if there is none. A row that is not required may pick nothing if `least` <= 0.
    """
    old = column_of(rows, row, now)
    best, pick = WORST, now
    if least <= 0.0 and not rows.required[row]:
        best, pick = 0.0, NOTHING
    stay = rows.stay_column[row]
    stay_worth = rows.stay_gain[row] - cost[stay] if stay >= 0 and rows.stay_gain[row] >= least else WORST
    if stay_worth > WORST and stay_worth >= best and fits(columns, old, stay, room):
        best, pick = stay_worth, STAY
    offset, scale = rows.offset[row], rows.scale[row]
    for g in range(len(rows.concave)):
        for k in range(rows.begin[row, g], rows.end[row, g]):
            column = rows.column[k]
            if not fits(columns, old, column, room):
                if rows.rising[g]:
                    break  # larger options fit no better
                continue
            gain = offset + scale * rows.value[k]
            if gain >= least and gain - cost[column] > best:
                best, pick = gain - cost[column], k
    return best, pick


@kernel
def _best_and_regret(rows: Rows, columns: Columns, prices: Floats) -> tuple[Ints, Floats]:
    """Return each row's best pick at the prices, and its loss without that pick; infinity if it is required."""
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    picks, regrets = np.empty(len(rows.order), np.int64), np.empty(len(rows.order))
    for i in range(len(rows.order)):
        row = rows.order[i]
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
        picks[i] = pick
        regrets[i] = np.inf if rows.required[row] else best - second
    return picks, regrets


@kernel
def _take_in_order(
    rows: Rows, columns: Columns, prices: Floats, places: Ints, wanted: Ints, picks: Ints, room: Floats
) -> None:
    """Let rows, in the order of `places`, take what they want, or else their best option that still fits."""
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    for i in places:
        row, pick = rows.order[i], wanted[i]
        column = column_of(rows, row, pick)
        if not fits(columns, NOTHING, column, room):
            _, pick = best_that_fits(rows, columns, row, NOTHING, cost, room, WORST)
            column = column_of(rows, row, pick)
        picks[row] = pick
        move(columns, NOTHING, column, room)


def take_best(rows: Rows, columns: Columns, prices: Floats, picks: Ints, room: Floats) -> None:
    """Let rows take their best options at the prices that still fit.

    Required rows choose first, then those that lose most without their best option. Ties go to the first row.
    `picks` of these rows must be NOTHING. They are written, and `room` shrinks.
    """
    wanted, regrets = _best_and_regret(rows, columns, prices)
    _take_in_order(rows, columns, prices, np.argsort(-regrets, kind="stable"), wanted, picks, room)


@kernel
def _improvements(
    rows: Rows, columns: Columns, prices: Floats, picks: Ints, room: Floats
) -> tuple[Ints, Ints, Floats]:
    """Return the rows that gain by another pick that fits, that pick, and what it loses at the prices."""
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    count, found = len(rows.order), 0
    who, wanted, loss = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    for row in rows.order:
        now = picks[row]
        more = gain_of(rows, row, now) + TOLERANCE
        worth, pick = best_that_fits(rows, columns, row, now, cost, room, more)
        if pick != now:
            old = column_of(rows, row, now)
            has = gain_of(rows, row, now) - (cost[old] if old >= 0 else 0.0)
            who[found], wanted[found], loss[found] = row, pick, has - worth
            found += 1
    return who[:found], wanted[:found], loss[:found]


@kernel
def _change(rows: Rows, columns: Columns, wanted: Ints, picks: Ints, room: Floats) -> int:
    """Let the rows of the order have what they want if it still fits. Return how many changed."""
    changes = 0
    for i in range(len(rows.order)):
        row = rows.order[i]
        old, new = column_of(rows, row, picks[row]), column_of(rows, row, wanted[i])
        if fits(columns, old, new, room):
            move(columns, old, new, room)
            picks[row] = wanted[i]
            changes += 1
    return changes


@kernel
def _is_left(columns: Columns, prices: Floats, room: Floats) -> bool:
    """Return whether some column fits in `room` and takes something that has a price."""
    for c in range(len(columns.begin) - 1):
        fit, worth = True, 0.0
        for e in range(columns.begin[c], columns.begin[c + 1]):
            fit = fit and columns.amount[e] <= room[columns.limit[e]]
            worth += columns.amount[e] * prices[columns.limit[e]]
        if fit and worth > 0.0:
            return True
    return False


def fill(rows: Rows, columns: Columns, prices: Floats, picks: Ints, room: Floats) -> None:
    """Change single rows while that gains and fits, in the order of their losses at the prices.

    This is repeated while anything is left that has a price. `picks` and `room` are written.
    """
    # A row that could not change within some room cannot within less, so only the others are asked again.
    some, enough = rows.order, room.copy()
    for _ in range(_FILL_ROUNDS):
        if (room > enough).any():
            some = rows.order
        enough = room.copy()
        some, wanted, loss = _improvements(rows._replace(order=some), columns, prices, picks, room)
        order = np.argsort(loss, kind="stable")
        changes = _change(rows._replace(order=some[order]), columns, wanted[order], picks, room)
        if not changes or not _is_left(columns, prices, room):
            break


def fill_up(everything: Program, near: Near, prices: Floats, picks: Ints, room: Floats) -> None:
    """Give away what is left, first to the rows that are open near the prices. That mostly is enough."""
    columns = everything.columns
    fill(everything.only(near.order), columns, prices, picks, room)
    if len(near.order) < len(everything.rows.order) and _is_left(columns, prices, room):
        fill(everything.rows, columns, prices, picks, room)


def round_at(program: Program, everything: Program, near: Near, known: Known, prices: Floats) -> Ints:
    """Return picks by row that fit. Every row takes its best option that fits, then what is left is given away.

    Rows that are fixed near the prices keep their pick. No row may be required.
    """
    picks, order, room = known.picks(), near.order, near.room.copy()
    if not near.is_possible:
        picks[:], order, room = NOTHING, program.rows.order, program.capacity.copy()
    take_best(program.only(order), program.columns, prices, picks, room)
    fill_up(everything, near, prices, picks, room)
    return picks


def round_vertex(
    program: Program, everything: Program, near: Near, prices: Floats, picks: Ints, split: Ints, base: Ints | None
) -> None:
    """Turn `picks` of a vertex, of whose rows `split` are fractional, into a plan that fits.

    `base` are picks that serve the required rows; None if there are no such rows.
    """
    rows, columns, capacity = program
    picks[split] = NOTHING
    room = room_left(program, picks)
    if (room >= -SLACK).all():
        take_best(program.only(split), columns, prices, picks, room)
    else:
        picks[:], room = NOTHING, capacity.copy()
        take_best(rows, columns, prices, picks, room)
    if base is not None and unserved(rows, picks).any():
        # All rows choose anew, so that required rows choose first.
        picks[:], room = NOTHING, capacity.copy()
        take_best(rows, columns, prices, picks, room)
        if unserved(rows, picks).any():
            picks[:], room = around(program, capacity, prices, base)
    fill_up(everything, near, prices, picks, room)


def unserved(rows: Rows, picks: Ints) -> Flags:
    """Return (rows,) whether each row of the order must pick something but does not."""
    return np.asarray(rows.required[rows.order] & (picks[rows.order] == NOTHING))


def around(program: Program, room: Floats, prices: Floats, base: Ints) -> tuple[Ints, Floats]:
    """Return a plan in which required rows have their picks of `base`, and the room that it leaves."""
    picks, room = base.copy(), room.copy()
    _take_all(program.rows, program.columns, picks, room)
    order = program.rows.order
    take_best(program.only(order[~program.rows.required[order]]), program.columns, prices, picks, room)
    return picks, room
