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
# Widths that a row loses as readily as it takes a share's worth of a limit more than is due by now.
_PULL = 10.0


def take_at(snapshot: Snapshot, priced: Priced, gap: float) -> Found | None:
    """What rows have shares of at the prices, and fits, and what is left given away.

    None: it is not looked for, as an exact search of all rows costs little, as the gap is less than such plans
    mostly miss, or as settled rows alone do not fit.
    """
    near, prices, dual, passes = priced.near, priced.prices, priced.dual, priced.passes
    room, count = near.room.copy(), len(snapshot.rows.order)
    if count <= EXACT_ROWS or gap * count < _LEAST or (room < 0.0).any():
        return None
    picks = settled_picks(snapshot)
    take_shares(near.rows, snapshot.columns, prices, priced.width, picks, room)
    fill_up(snapshot, near, prices, picks, room)
    value = objective(snapshot.rows, picks)
    return Found(picks, room, value, max(dual, value), prices, passes, 0)


@kernel
def take_shares(rows: Rows, columns: Columns, prices: Floats, width: float, picks: Ints, room: Floats) -> None:
    """Rows pick what they have shares of, so that together they take of every limit what is due to these.

    First those that have a share of one pick alone, then those that are worth most.
    `picks` of these rows must be NOTHING and is written; `room` shrinks.
    """
    size, count, groups = len(prices), len(rows.order), len(rows.concave)
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    top, most = np.empty(groups, np.int64), np.empty(groups)
    pick_of, odds = np.empty(MOST_PICKS, np.int64), np.empty(MOST_PICKS)
    torn, relief, mean = np.empty(count, np.int64), np.empty(count), np.zeros((count, size))
    expected, amount = np.zeros(size), np.zeros(size)
    n = 0
    for row in rows.order:
        best = tops(rows, row, cost, top, most)
        options, _ = shares(rows, row, cost, best, width, top, most, pick_of, odds)
        column = column_of(rows, row, pick_of[0])
        if options == 1 and fits(columns, NOTHING, column, room):
            picks[row] = pick_of[0]
            move(columns, NOTHING, column, room)
            continue
        torn[n], relief[n] = row, -best
        for i in range(options):
            column = column_of(rows, row, pick_of[i])
            if column >= 0:
                for e in range(columns.begin[column], columns.begin[column + 1]):
                    u, part = columns.limit[e], odds[i] * columns.amount[e]
                    mean[n, u] += part
                    expected[u] += part
                    amount[u] += part * columns.amount[e]
        n += 1
    for u in range(size):
        if expected[u] > 0.0:
            amount[u] /= expected[u]
            expected[u] = min(max(room[u], 0.0) / expected[u], 1.0)
    due = np.zeros(size)
    within = np.ones((groups + 1, groups), np.bool_)
    for t in by_rising(relief[:n]):
        row = torn[t]
        for u in range(size):
            due[u] += expected[u] * mean[t, u]
        best = tops(rows, row, cost, top, most)
        options, _ = shares(rows, row, cost, best, width, top, most, pick_of, odds)
        least, pick, found = np.inf, NOTHING, False
        for i in range(options):
            column = column_of(rows, row, pick_of[i])
            if not fits(columns, NOTHING, column, room):
                continue
            loss = best - gain_of(rows, row, pick_of[i])
            if column >= 0:
                loss += cost[column]
                for e in range(columns.begin[column], columns.begin[column + 1]):
                    u = columns.limit[e]
                    part = columns.amount[e] / amount[u]
                    loss += _PULL * width * part * (part - 2.0 * due[u] / amount[u])
            if loss < least:
                least, pick, found = loss, pick_of[i], True
        if not found:
            _, pick = best_that_fits(rows, columns, row, NOTHING, cost, room, WORST, within)
        column = column_of(rows, row, pick)
        picks[row] = pick
        move(columns, NOTHING, column, room)
        move(columns, NOTHING, column, due)
