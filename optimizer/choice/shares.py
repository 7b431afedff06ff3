"""What a row would pick at prices that are known only so well: every pick that is worth nearly most has a share.

The shares are those of a logit: a pick worth less than the best by a *width* has 1/e of its share.
"""

from __future__ import annotations

import numpy as np

from ..compiled import step
from .rows import NOTHING, STAY, WORST, Floats, Ints, Rows, peak

MOST_PICKS = 256  # of a row; further ones have no share
_BAND = 8.0  # nor have those worth less than the best by this many widths


@step
def tops(rows: Rows, row: int, cost: Floats, top: Ints, worth: Floats) -> float:
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
        worth[g] = WORST
        if begin == end:
            continue
        if rows.concave[g]:
            top[g] = peak(rows, row, begin, end, cost)
            worth[g] = offset + scale * rows.value[top[g]] - cost[rows.column[top[g]]]
            best = max(best, worth[g])
        else:
            top[g], worth[g] = begin, np.inf
            for k in range(begin, end):
                best = max(best, offset + scale * rows.value[k] - cost[rows.column[k]])
    return best


@step
def shares(
    rows: Rows,
    row: int,
    cost: Floats,
    best: float,
    width: float,
    top: Ints,
    most: Floats,
    picks: Ints,
    odds: Floats,
) -> tuple[int, float]:
    """Picks of a row and their shares; how many these are, and what more than `best` the row is worth, smoothed.

    best, top and most: as `tops` has them, of a row that may pick something. picks, odds: (MOST_PICKS,), written.
    """
    least = best - _BAND * width
    n = 0
    stay = rows.stay_column[row]
    if stay >= 0 and rows.stay_gain[row] - cost[stay] >= least:
        picks[n], odds[n] = STAY, rows.stay_gain[row] - cost[stay]
        n += 1
    if not rows.required[row] and least <= 0.0:
        picks[n], odds[n] = NOTHING, 0.0
        n += 1
    scale, offset = rows.scale[row], rows.offset[row]
    for g in range(len(rows.concave)):
        if most[g] < least:
            continue
        begin, end = rows.begin[row, g], rows.end[row, g]
        for k in range(top[g], end):
            worth = offset + scale * rows.value[k] - cost[rows.column[k]]
            if worth >= least:
                if n < len(picks):
                    picks[n], odds[n] = k, worth
                    n += 1
            elif rows.concave[g]:
                break
        for k in range(top[g] - 1, begin - 1, -1):
            worth = offset + scale * rows.value[k] - cost[rows.column[k]]
            if worth < least:
                break
            if n < len(picks):
                picks[n], odds[n] = k, worth
                n += 1
    if n == 1:
        odds[0] = 1.0
        return 1, 0.0
    total = 0.0
    for i in range(n):
        odds[i] = np.exp((odds[i] - best) / width)
        total += odds[i]
    for i in range(n):
        odds[i] /= total
    return n, width * np.log(total)
