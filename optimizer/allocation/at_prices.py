"""A plan straight from prices: where it is within the gap, nobody needs the LP's vertex.

At prices that are known only so well, many rows are torn between picks that are worth nearly the same, and if each
took its best, far too much of one limit would be taken and too little of another. Their shares of each pick
(`shares.py`) together take what there is. So rows pick one after another, as their shares would have it on the
way: what those before took more of a limit than their shares of it, the next ones take less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel, step
from .near import Near, Priced, settled_picks
from .plan import best_that_fits, fits, move, objective
from .rows import (
    NOTHING,
    WORST,
    Columns,
    Flags,
    Floats,
    Ints,
    Rows,
    by_rising,
    column_of,
    costs,
    foresee,
    gain_of,
    some_of,
)
from .search import EXACT_ROWS
from .shares import Shares, no_shares, shares
from .snapshot import Found, Snapshot
from .whole import fill_up

_LEAST = 0.2  # rows' worth that the gap is: plans straight from prices hardly ever miss less
_HOPE = 3.0  # times the gap that rows may be expected to lose by picks as their shares: they pick what loses less
# Widths that a row loses as readily as it takes of a limit, beyond what is due, as much as rows mostly take.
_PULL = 10.0
_ALIKE = 0.01  # by so much shares of rows that are alike may differ: they may be told apart by what breaks ties


def take_at(snapshot: Snapshot, priced: Priced, gap: float) -> Found | None:
    """What rows have shares of at the prices, and fits, and what is left given away.

    None: it is not looked for, as an exact search of all rows costs little, as the gap is less than such plans
    mostly miss or than what rows lose by having shares, or as settled rows alone do not fit.
    """
    near, prices, dual, count = priced.near, priced.prices, priced.dual, len(snapshot.rows.order)
    if count <= EXACT_ROWS or gap * count < _LEAST:
        return None
    given = snapshot.rows, snapshot.everything, snapshot.columns, *snapshot.known, near, prices
    is_plan, picks, room, value = _plan(*given, priced.width, _HOPE * gap * dual)
    return Found(picks, room, value, max(dual, value), prices, priced.passes, 0) if is_plan else None


@kernel
def _plan(
    rows: Rows,
    everything: Rows,
    columns: Columns,
    state: NDArray[np.int8],
    settled: Ints,
    near: Near,
    prices: Floats,
    width: float,
    most_loss: float,
) -> tuple[bool, Ints, Floats, float]:
    """Whether there is a plan, its picks, what it leaves of the capacity, its objective."""
    picks, room, few = settled_picks(state, settled), near.room.copy(), some_of(rows, near.order)
    for left in room:
        if left < 0.0:
            return False, picks, room, 0.0
    if not take_shares(few, columns, prices, width, most_loss, picks, room):
        return False, picks, room, 0.0
    fill_up(everything, columns, near.order, prices, picks, room, room[:0])
    return True, picks, room, objective(rows, picks)


@kernel
def take_shares(
    rows: Rows, columns: Columns, prices: Floats, width: float, most_loss: float, picks: Ints, room: Floats
) -> bool:
    """Rows pick what they have shares of, so that together they take of every limit what is due to these.

    False: those that have several did not, as these lose more than `most_loss` against what is best at the prices.
    First those that have a share of one pick alone, then those that are worth most; of rows that are alike those
    that come first have what gains most. No row may be required.
    `picks` of these rows must be NOTHING and is written; `room` shrinks.
    """
    size, groups = len(prices), len(rows.concave)
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    wanted, typical = np.zeros(size), np.zeros(size)
    torn, loss = _take_sole(rows, columns, cost, width, picks, room, wanted, typical)
    if loss > most_loss:
        return False
    ready = np.ones(size)  # of what is wanted of each limit, the part that there is
    for u in range(size):
        if wanted[u] > 0.0:
            ready[u] = min(max(room[u], 0.0) / wanted[u], 1.0)
    due = np.zeros(size)  # to the rows so far, beyond what they took
    within = np.ones((groups + 1, groups), np.bool_)
    chosen, alike = np.empty(len(torn), np.int64), np.zeros(len(torn), np.bool_)
    own, before, count_before = no_shares(groups), no_shares(groups), 0
    for t in range(len(torn)):
        row = torn[t]
        count, _, _ = shares(rows, row, cost, width, own)
        alike[t] = count == count_before and _are_alike(own, before, count)
        for i in range(count):
            _add_due(columns, own.column[i], ready, own.odds[i], due)
        chosen[t] = _nearest_to_due(columns, own, count, due, typical, _PULL * width, room)
        if chosen[t] >= 0:
            picks[row] = own.pick[chosen[t]]
        else:
            _, picks[row] = best_that_fits(rows, columns, row, NOTHING, cost, room, WORST, within)
            alike[t], count = False, 0
        column = column_of(rows, row, picks[row])
        move(columns, NOTHING, column, room)
        move(columns, NOTHING, column, due)
        own, before, count_before = before, own, count
    _deal(rows, cost, width, torn, chosen, alike, picks)
    return True


@kernel
def _take_sole(
    rows: Rows,
    columns: Columns,
    cost: Floats,
    width: float,
    picks: Ints,
    room: Floats,
    wanted: Floats,
    typical: Floats,
) -> tuple[Ints, float]:
    """Rows that have a share of one pick alone take it; (the torn ones, most worth first, what their shares lose).

    wanted and typical: (limits,) zeros, written: what the shares of torn rows take, and what one mostly takes.
    """
    torn, relief = np.empty(len(rows.order), np.int64), np.empty(len(rows.order))
    own = no_shares(len(rows.concave))
    n, loss = 0, 0.0
    for i in range(len(rows.order)):
        foresee(rows, i)
        row = rows.order[i]
        count, best, _ = shares(rows, row, cost, width, own)
        if count == 1 and fits(columns, NOTHING, own.column[0], room):
            picks[row] = own.pick[0]
            move(columns, NOTHING, own.column[0], room)
            continue
        torn[n], relief[n] = row, -best
        n += 1
        for k in range(count):
            loss += own.odds[k] * own.loss[k]
            column = own.column[k]
            if column >= 0:
                for e in range(columns.begin[column], columns.begin[column + 1]):
                    wanted[columns.limit[e]] += own.odds[k] * columns.amount[e]
                    typical[columns.limit[e]] += own.odds[k] * columns.amount[e] ** 2
    for u in range(len(wanted)):
        if wanted[u] > 0.0:
            typical[u] /= wanted[u]
    return torn[by_rising(relief[:n])], loss


@step
def _are_alike(own: Shares, other: Shares, count: int) -> bool:
    """Whether two rows have about the same shares of the same columns."""
    for i in range(count):
        if own.column[i] != other.column[i] or abs(own.odds[i] - other.odds[i]) > _ALIKE:
            return False
    return True


@step
def _add_due(columns: Columns, column: int, ready: Floats, odds: float, due: Floats) -> None:
    """Into `due`, what there is for a share of a column."""
    if column >= 0:
        for e in range(columns.begin[column], columns.begin[column + 1]):
            due[columns.limit[e]] += ready[columns.limit[e]] * odds * columns.amount[e]


@step
def _nearest_to_due(
    columns: Columns, own: Shares, count: int, due: Floats, typical: Floats, pull: float, room: Floats
) -> int:
    """Which pick that fits loses least and is nearest to what is due of each limit, both in one sum; -1: none.

    pull: what it weighs to be off by as much of a limit as rows mostly take, in the objective's units.
    """
    least, found = np.inf, -1
    for i in range(count):
        column = own.column[i]
        if not fits(columns, NOTHING, column, room):
            continue
        loss = own.loss[i]
        if column >= 0:
            for e in range(columns.begin[column], columns.begin[column + 1]):
                u = columns.limit[e]
                part = columns.amount[e] / typical[u]
                loss += pull * part * (part - 2.0 * due[u] / typical[u])
        if loss < least:
            least, found = loss, i
    return found


@kernel
def _deal(rows: Rows, cost: Floats, width: float, torn: Ints, chosen: Ints, alike: Flags, picks: Ints) -> None:
    """Rows that are alike exchange picks: the first ones have what gains most.

    chosen: (torn,) which of the picks that it has shares of each row has. alike: (torn,) as the row before it.
    """
    own = no_shares(len(rows.concave))
    begin = 0
    for end in range(1, len(torn) + 1):
        if end < len(torn) and alike[end]:
            continue
        if end - begin > 1:
            relief = np.empty(end - begin)
            for t in range(begin, end):
                relief[t - begin] = -gain_of(rows, torn[t], picks[torn[t]])
            by_gain = by_rising(relief)
            for t in range(begin, end):
                given = chosen[begin + by_gain[t - begin]]
                if given != chosen[t]:
                    shares(rows, torn[t], cost, width, own)
                    picks[torn[t]] = own.pick[given]
        begin = end
