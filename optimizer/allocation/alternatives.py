"""Picks of a row that cost little at the prices, and what they would change; compiled."""

from __future__ import annotations

import numpy as np

from ..compiled import step
from .rows import NOTHING, STAY, Columns, Floats, Ints, Rows, best_of, column_of, gain_of

MOST_OPTIONS = 32  # of a row
NONE, SEVERAL = -1, -2  # instead of the limit that a column takes of


@step
def alternatives(
    rows: Rows, row: int, cost: Floats, budget: float, picks: Ints, losses: Floats
) -> tuple[int, float]:
    """Picks that lose at most `budget` against the best, cheapest first, and the least that one left out loses.

    As many as `picks` and `losses` have room for are written there; their number is returned.
    """
    top, _ = best_of(rows, row, cost)
    n, most, dropped = 0, len(picks), np.inf
    groups = len(rows.concave)
    for g in range(-2, groups):
        begin, end = (rows.begin[row, g], rows.end[row, g]) if g >= 0 else (g, g + 1)
        for k in range(begin, end):
            column = column_of(rows, row, k)
            if (k == NOTHING and rows.required[row]) or (k == STAY and column < 0):
                continue
            loss = top - gain_of(rows, row, k) + (cost[column] if column >= 0 else 0.0)
            if loss > budget or (n == most and loss >= losses[n - 1]):
                if n == most:
                    dropped = min(dropped, loss)
                continue
            if n == most:
                dropped = min(dropped, losses[n - 1])
                n -= 1
            i = n
            while i > 0 and losses[i - 1] > loss:
                picks[i], losses[i] = picks[i - 1], losses[i - 1]
                i -= 1
            picks[i], losses[i] = k, max(loss, 0.0)
            n += 1
    return n, dropped


@step
def limit_of(columns: Columns, column: int) -> int:
    """The only limit that a column takes of; NONE or SEVERAL."""
    if column < 0 or columns.begin[column] == columns.begin[column + 1]:
        return NONE
    if columns.begin[column + 1] > columns.begin[column] + 1:
        return SEVERAL
    return int(columns.limit[columns.begin[column]])


@step
def amount_of(columns: Columns, column: int) -> float:
    """What a column takes of its only limit, if it has one."""
    return 0.0 if limit_of(columns, column) == NONE else columns.amount[columns.begin[column]]
