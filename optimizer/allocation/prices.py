"""Finds prices that minimise the Lagrangian bound, by Newton's method on a dual that is smoothed less and less.

A row's worth at given prices is the maximum over its options. It is smoothed as in a logit model. At a width w it
is w * log(sum over options of exp(worth / w)). An option worth less than the best by w has 1/e of the best one's
share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiled import kernel, step
from .options import WORST, Columns, Floats, Ints, Rows, costs, peak

_MOST_SHARES = 256  # options of a row that may have a share
# Options worth less than the best by more than this many widths have no share. With 5 large first solves end far
# from their bound, as the smoothed dual jumps when options drop out.
_BAND = 8.0
_SHRINK, _STEPS = 0.3, 24  # factor from width to width; most steps at each
_FLOOR = 0.05  # part of a typical price that is added to every price, as prices of 0 may become positive
_GOOD = 0.75  # part of the predicted gain that a step must reach for the trust region to grow
_FORGOTTEN = 0.3  # part of a learnt bend that is left after such a step
_STIFF = 1e-5  # least curvature: part of a limit's capacity by which demand falls at twice the price
_IN_VAIN = 0.1  # a step with a predicted gain below this part of `enough` is not taken
_SWEEPS, _SETTLED = 60, 1e-3  # coordinate descent: most sweeps; least part of all gain for another


class Shares(NamedTuple):
    """Scratch space for one row's options with a share: their columns, losses against the best, and odds.

    top: (groups,) the best option of each concave group, and the first of any other.
    best: (groups,) the worth of the best option of each concave group, and infinity for any other.
    """

    column: Ints
    loss: Floats
    odds: Floats
    top: Ints
    best: Floats


def no_shares(groups: int) -> Shares:
    """Return scratch space for rows with this number of groups."""
    column = np.empty(_MOST_SHARES, np.int64)
    return Shares(
        column, np.empty(_MOST_SHARES), np.empty(_MOST_SHARES), np.empty(groups, np.int64), np.empty(groups)
    )


@step
def _best(rows: Rows, row: int, cost: Floats, top: Ints, best: Floats) -> float:
    """Write `top` and `best`. Return the worth of a row's best option; WORST if it must pick and cannot."""
    most = WORST if rows.required[row] else 0.0
    stay = rows.stay_column[row]
    if stay >= 0:
        most = max(most, rows.stay_gain[row] - cost[stay])
    scale, offset = rows.scale[row], rows.offset[row]
    for g in range(len(rows.concave)):
        begin, end = rows.begin[row, g], rows.end[row, g]
        best[g] = WORST
        if begin == end:
            continue
        if rows.concave[g]:
            top[g] = peak(rows, row, g, begin, cost)
            best[g] = offset + scale * rows.value[top[g]] - cost[rows.column[top[g]]]
            most = max(most, best[g])
        else:
            top[g], best[g] = begin, np.inf
            for k in range(begin, end):
                most = max(most, offset + scale * rows.value[k] - cost[rows.column[k]])
    return most


@step
def _shares(rows: Rows, row: int, cost: Floats, width: float, own: Shares) -> tuple[int, float, float]:
    """Write the shares of a row's options. Return their number, the best worth, and what smoothing adds to it."""
    best = _best(rows, row, cost, own.top, own.best)
    if best <= WORST:
        return 0, best, 0.0
    column, loss, odds = own.column, own.loss, own.odds
    band, n = _BAND * width, 0
    stay = rows.stay_column[row]
    if stay >= 0 and best - (rows.stay_gain[row] - cost[stay]) <= band:
        column[n], loss[n] = stay, best - (rows.stay_gain[row] - cost[stay])
        n += 1
    if not rows.required[row] and best <= band:
        column[n], loss[n] = -1, best
        n += 1
    scale, offset = rows.scale[row], rows.offset[row]
    for g in range(len(rows.concave)):
        if best - own.best[g] > band:
            continue
        # Go up from the best of the group, then down from it. In a concave group worth falls on either side.
        up = True
        k = own.top[g]
        while True:
            if up and k >= rows.end[row, g]:
                up, k = False, own.top[g] - 1
            if not up and k < rows.begin[row, g]:
                break
            less = best - (offset + scale * rows.value[k] - cost[rows.column[k]])
            if less <= band:
                if n < len(column):
                    column[n], loss[n] = rows.column[k], less
                    n += 1
            elif rows.concave[g]:
                if not up:
                    break
                up, k = False, own.top[g]
            k += 1 if up else -1
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


@kernel
def smoothed_dual(
    rows: Rows,
    columns: Columns,
    capacity: Floats,
    prices: Floats,
    width: float,
    own: Shares,
    gradient: Floats,
    hessian: Floats,
    with_slopes: bool,
) -> tuple[float, float]:
    """Return the smoothed Lagrangian bound, and the bound itself.

    The latter is smaller by at most width * log(options) per row. `own` is scratch space. With `with_slopes`,
    gradient (limits,) and Hessian (limits, limits) of the smoothed bound are written.
    """
    size, cost = len(capacity), np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    dual = 0.0
    for i in range(size):
        dual += prices[i] * capacity[i]
        gradient[i] = capacity[i]
        for j in range(size):
            hessian[i, j] = 0.0
    value = dual
    column, odds = own.column, own.odds
    mean, some = np.zeros(size), np.empty(size, np.int64)  # a row's mean usage, and the limits it uses
    for row in rows.order:
        n, best, more = _shares(rows, row, cost, width, own)
        dual += best
        if n == 0:
            continue
        value += best + more
        if not with_slopes:
            continue
        count = 0
        for i in range(n):
            c = column[i]
            if c < 0:
                continue
            for e in range(columns.begin[c], columns.begin[c + 1]):
                u, part = columns.limit[e], odds[i] * columns.amount[e]
                if n == 1:
                    gradient[u] -= part
                    continue
                if mean[u] == 0.0:
                    some[count] = u
                    count += 1
                mean[u] += part
                for f in range(columns.begin[c], columns.begin[c + 1]):
                    hessian[u, columns.limit[f]] += part * columns.amount[f]
        for i in range(count):
            u = some[i]
            gradient[u] -= mean[u]
            for m in range(count):
                hessian[u, some[m]] -= mean[u] * mean[some[m]]
        for i in range(count):
            mean[some[i]] = 0.0
    for i in range(size):
        for m in range(size):
            hessian[i, m] /= width
    return value, dual


@kernel
def _least_between(system: Floats, gradient: Floats, prices: Floats, low: Floats, high: Floats) -> Floats:
    """Return the minimum of a quadratic model around the prices between low and high, by coordinate descent."""
    size, trial, gained = len(prices), prices.copy(), 0.0
    for _ in range(_SWEEPS):
        before = gained
        for i in range(size):
            slope = gradient[i]
            for j in range(size):
                slope += system[i, j] * (trial[j] - prices[j])
            better = min(max(trial[i] - slope / system[i, i], low[i]), high[i])
            change = better - trial[i]
            gained -= change * (slope + 0.5 * system[i, i] * change)
            trial[i] = better
        if gained - before <= _SETTLED * gained:
            break
    return trial


class Aim(NamedTuple):
    """How exactly prices are sought: to a smoothing `width`, until a step gains less than `enough`.

    first_width: the width to start with.
    reach: the largest relative change of a price in the first step.
    typical: about what a unit of a limit costs.
    """

    first_width: float
    width: float
    enough: float
    reach: float
    typical: float


def find_prices(
    rows: Rows, columns: Columns, capacity: Floats, low: Floats, high: Floats, prices: Floats, aim: Aim
) -> tuple[int, float]:
    """Improve `prices` in place, between low and high (limits,). Return passes over the rows, and the bound.

    A step goes to the minimum of a quadratic model within a trust region. The region grows if the model predicts
    the gain well, and shrinks if a step leads uphill. An uphill step has mostly moved one price so far that other
    rows change their picks. The curvature that it met, its bend, is added to the model for the next steps.
    """
    own, width, reach, passes = no_shares(len(rows.concave)), aim.first_width, aim.reach, 0
    size, enough = len(capacity), aim.enough
    gradient, hessian = np.empty(size), np.empty((size, size))
    next_gradient, next_hessian = np.empty(size), np.empty((size, size))
    while True:
        given = rows, columns, capacity
        value, dual = smoothed_dual(*given, prices, width, own, gradient, hessian, True)
        passes += 1
        bend, was_uphill = np.zeros(size), False
        for _ in range(_STEPS):
            scale = prices + _FLOOR * aim.typical + 1e-12
            system = hessian + np.diag(bend + _STIFF * np.maximum(capacity, 1e-12) / scale)
            least, most = np.maximum(prices - reach * scale, low), np.minimum(prices + reach * scale, high)
            trial = _least_between(system, gradient, prices, least, most)
            change = trial - prices
            furthest = float((np.abs(change) / scale).max())
            promised = -float(gradient @ change + 0.5 * change @ hessian @ change)
            held_back = furthest > 0.99 * reach
            if promised < enough and not was_uphill and (held_back or bend.any()):
                # The predicted gain may be larger farther away, or without the bends.
                if held_back:
                    reach *= 2.0
                else:
                    bend[:] = 0.0
                continue
            if promised < _IN_VAIN * enough:
                break
            is_last = promised < enough and not held_back
            found, found_dual = smoothed_dual(*given, trial, width, own, next_gradient, next_hessian, not is_last)
            passes += 1
            was_uphill = found >= value
            if was_uphill:
                if is_last:
                    break
                met = next_gradient - gradient - hessian @ change
                moved = change != 0.0
                bend[moved] = np.maximum(bend[moved], met[moved] / change[moved])
                reach = 0.5 * furthest
                continue
            kept, value, dual = (value - found) / promised, found, found_dual
            prices[:] = trial
            if is_last:
                break
            gradient, next_gradient, hessian, next_hessian = next_gradient, gradient, next_hessian, hessian
            if kept > _GOOD:
                reach = 2.0 * reach if held_back else reach
                bend *= _FORGOTTEN
        if width <= aim.width:
            return passes, dual
        width = max(_SHRINK * width, aim.width)
