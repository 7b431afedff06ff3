"""A plan straight from prices: where it is within the gap, nobody needs the LP's vertex.

At prices that are known only so well, many rows are torn between picks that are worth nearly the same, and if each
took its best, far too much of one limit would be taken and too little of another. Their shares of each pick
(`shares.py`) together take what there is. So rows pick one after another, as their shares would have it on the
way: what those before took more of a limit than their shares of it, the next ones take less.
"""

from __future__ import annotations

import numpy as np

from ..compiled import kernel
from .near import Priced, settled_picks
from .plan import best_that_fits, fits, move, objective
from .rows import NOTHING, WORST, Columns, Floats, Ints, Rows, by_rising, column_of, costs, gain_of
from .search import EXACT_ROWS
from .shares import MOST_PICKS, shares, tops
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
    near, prices, dual, passes = priced.near, priced.prices, priced.dual, priced.passes
    room, count = near.room.copy(), len(snapshot.rows.order)
    if count <= EXACT_ROWS or gap * count < _LEAST or (room < 0.0).any():
        return None
    picks = settled_picks(snapshot)
    if not take_shares(near.rows, snapshot.columns, prices, priced.width, _HOPE * gap * dual, picks, room):
        return None
    fill_up(snapshot, near, prices, picks, room)
    value = objective(snapshot.rows, picks)
    return Found(picks, room, value, max(dual, value), prices, passes, 0)


@kernel
def take_shares(
    rows: Rows, columns: Columns, prices: Floats, width: float, most_loss: float, picks: Ints, room: Floats
) -> bool:
    """Rows pick what they have shares of, so that together they take of every limit what is due to these.

    False: they did not, as their shares alone lose more than `most_loss` against what is best at the prices.
    First those that have a share of one pick alone, then those that are worth most; of rows that are alike those
    that come first have what gains most. No row may be required.
    `picks` of these rows must be NOTHING and is written; `room` shrinks.
    """
    size, count, groups = len(prices), len(rows.order), len(rows.concave)
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    top, most = np.empty(groups, np.int64), np.empty(groups)
    pick_of, odds, column_at = np.empty(MOST_PICKS, np.int64), np.empty(MOST_PICKS), np.empty(MOST_PICKS, np.int64)
    torn, relief = np.empty(count, np.int64), np.empty(count)
    wanted, typical = np.zeros(size), np.zeros(size)
    n, lost = 0, 0.0
    for row in rows.order:
        best = tops(rows, row, cost, top, most)
        options, _ = shares(rows, row, cost, best, width, top, most, pick_of, odds)
        column = column_of(rows, row, pick_of[0])
        if options == 1 and fits(columns, NOTHING, column, room):
            picks[row] = pick_of[0]
            move(columns, NOTHING, column, room)
            continue
        torn[n], relief[n] = row, -best
        n += 1
        for i in range(options):
            column = column_of(rows, row, pick_of[i])
            lost += odds[i] * (best - gain_of(rows, row, pick_of[i]))
            if column >= 0:
                lost += odds[i] * cost[column]
                for e in range(columns.begin[column], columns.begin[column + 1]):
                    wanted[columns.limit[e]] += odds[i] * columns.amount[e]
                    typical[columns.limit[e]] += odds[i] * columns.amount[e] ** 2
    if lost > most_loss:
        return False
    ready = np.ones(size)  # of what is wanted of each limit, the part that there is
    for u in range(size):
        if wanted[u] > 0.0:
            typical[u] /= wanted[u]
            ready[u] = min(max(room[u], 0.0) / wanted[u], 1.0)
    due = np.zeros(size)
    within = np.ones((groups + 1, groups), np.bool_)
    torn = torn[by_rising(relief[:n])]
    chosen, alike = np.empty(n, np.int64), np.zeros(n, np.bool_)
    options_before, odds_before = 0, np.empty(MOST_PICKS)
    for t in range(n):
        row = torn[t]
        best = tops(rows, row, cost, top, most)
        options, _ = shares(rows, row, cost, best, width, top, most, pick_of, odds)
        alike[t] = options == options_before
        for i in range(options):
            column = column_of(rows, row, pick_of[i])
            if alike[t]:
                alike[t] = column == column_at[i] and abs(odds[i] - odds_before[i]) <= _ALIKE
            column_at[i], odds_before[i] = column, odds[i]
            if column >= 0:
                for e in range(columns.begin[column], columns.begin[column + 1]):
                    due[columns.limit[e]] += ready[columns.limit[e]] * odds[i] * columns.amount[e]
        options_before = options
        least, chosen[t] = np.inf, -1
        for i in range(options):
            column = column_at[i]
            if not fits(columns, NOTHING, column, room):
                continue
            loss = best - gain_of(rows, row, pick_of[i])
            if column >= 0:
                loss += cost[column]
                for e in range(columns.begin[column], columns.begin[column + 1]):
                    u = columns.limit[e]
                    part = columns.amount[e] / typical[u]
                    loss += _PULL * width * part * (part - 2.0 * due[u] / typical[u])
            if loss < least:
                least, chosen[t] = loss, i
        if chosen[t] >= 0:
            picks[row] = pick_of[chosen[t]]
        else:
            _, picks[row] = best_that_fits(rows, columns, row, NOTHING, cost, room, WORST, within)
            alike[t], options_before = False, 0
        column = column_of(rows, row, picks[row])
        move(columns, NOTHING, column, room)
        move(columns, NOTHING, column, due)
    begin = 0
    for end in range(1, n + 1):
        if end == n or not alike[end]:
            if end - begin > 1:
                _deal(rows, cost, width, torn[begin:end], chosen[begin:end], picks)
            begin = end
    return True


@kernel
def _deal(rows: Rows, cost: Floats, width: float, alike: Ints, chosen: Ints, picks: Ints) -> None:
    """Rows that are alike exchange picks: the first one has what gains most.

    chosen: (alike,) which of the picks that it has shares of each row has.
    """
    top, most = np.empty(len(rows.concave), np.int64), np.empty(len(rows.concave))
    pick_of, odds = np.empty(MOST_PICKS, np.int64), np.empty(MOST_PICKS)
    relief = np.empty(len(alike))
    for t in range(len(alike)):
        relief[t] = -gain_of(rows, alike[t], picks[alike[t]])
    by_gain = by_rising(relief)
    for t in range(len(alike)):
        row = alike[t]
        if chosen[by_gain[t]] != chosen[t]:
            best = tops(rows, row, cost, top, most)
            shares(rows, row, cost, best, width, top, most, pick_of, odds)
            picks[row] = pick_of[chosen[by_gain[t]]]
