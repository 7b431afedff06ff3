"""What a row would pick at prices that are known only so well: every pick that is worth nearly most has a share.

The shares are those of a logit: a pick worth less than the best by a *width* has 1/e of its share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiled import kernel, step
from .rows import NOTHING, STAY, WORST, Floats, Ints, Rows, peak

_MOST_PICKS = 256  # of a row; further ones have no share
# Nor have those worth less than the best by this many widths. With 5 large first rounds end far from their bound,
# as what is cut off makes the smoothed dual jump.
_BAND = 8.0


class Shares(NamedTuple):
    """Of one row at a time: picks that have a share, their columns, what they lose against the best, and odds.

    Of the first four only so many entries hold as `shares` says.
    """

    pick: Ints
    column: Ints
    loss: Floats
    odds: Floats
    top: Ints
    """(groups,) the option of a group that is worth most; of groups that are not concave the first one"""
    most: Floats
    """(groups,) what that is worth; of groups that are not concave infinity"""


@kernel
def no_shares(groups: int) -> Shares:
    """Of no row yet."""
    pick, column = np.empty(_MOST_PICKS, np.int64), np.empty(_MOST_PICKS, np.int64)
    loss, odds = np.empty(_MOST_PICKS), np.empty(_MOST_PICKS)
    return Shares(pick, column, loss, odds, np.empty(groups, np.int64), np.empty(groups))


@step
def _tops(rows: Rows, row: int, cost: Floats, top: Ints, most: Floats) -> float:
    """What is worth most to a row; in each group that is concave its peak, and what that is worth: (groups,).

    In the others the first option, and infinity, as any may be near the best; no option: WORST.
    """
    best = WORST if rows.required[row] else 0.0
    stay = rows.stay_column[row]
    if stay >= 0:
        best = max(best, rows.stay_gain[row] - cost[stay])
    scale, offset = rows.scale[row], rows.offset[row]
    for g in range(len(rows.concave)):
        begin, end = rows.begin[row, g], rows.end[row, g]
        most[g] = WORST
        if begin == end:
            continue
        if rows.concave[g]:
            top[g] = peak(rows, row, g, begin, cost)
            most[g] = offset + scale * rows.value[top[g]] - cost[rows.column[top[g]]]
            best = max(best, most[g])
        else:
            top[g], most[g] = begin, np.inf
            for k in range(begin, end):
                best = max(best, offset + scale * rows.value[k] - cost[rows.column[k]])
    return best


@step
def shares(rows: Rows, row: int, cost: Floats, width: float, own: Shares) -> tuple[int, float, float]:
    """Writes the shares of a row; how many they are, what the best is worth, and what more the row is, smoothed.

    A row that must pick something, and has nothing: none, WORST.
    """
    top, most, pick, column, loss, odds = own.top, own.most, own.pick, own.column, own.loss, own.odds
    best = _tops(rows, row, cost, top, most)
    if best <= WORST:
        return 0, best, 0.0
    band = _BAND * width
    n = 0
    stay = rows.stay_column[row]
    if stay >= 0 and best - (rows.stay_gain[row] - cost[stay]) <= band:
        pick[n], column[n], loss[n] = STAY, stay, best - (rows.stay_gain[row] - cost[stay])
        n += 1
    if not rows.required[row] and best <= band:
        pick[n], column[n], loss[n] = NOTHING, -1, best
        n += 1
    for g in range(len(rows.concave)):
        if best - most[g] > band:
            continue
        for k in range(top[g], rows.end[row, g]):
            less = _less(rows, row, k, cost, best)
            if less <= band:
                if n < len(pick):
                    pick[n], column[n], loss[n] = k, rows.column[k], less
                    n += 1
            elif rows.concave[g]:
                break
        for k in range(top[g] - 1, rows.begin[row, g] - 1, -1):
            less = _less(rows, row, k, cost, best)
            if less > band:
                break
            if n < len(pick):
                pick[n], column[n], loss[n] = k, rows.column[k], less
                n += 1
    if n == 1:
        odds[0] = 1.0
        return 1, best, 0.0
    total = 0.0
    for i in range(n):
        odds[i] = np.exp(-loss[i] / width)
        total += odds[i]
    for i in range(n):
        odds[i] /= total
    return n, best, width * np.log(total)


@step
def _less(rows: Rows, row: int, option: int, cost: Floats, best: float) -> float:
    """By how much an option is worth less than the best."""
    return best - (rows.offset[row] + rows.scale[row] * rows.value[option] - cost[rows.column[option]])
