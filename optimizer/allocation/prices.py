"""Prices at which demand meets capacity: Newton's method in trusted regions, on a dual smoothed less and less."""

from __future__ import annotations

import numpy as np

from ..compiled import kernel, step
from .rows import Columns, Floats, Rows, costs, foresee
from .shares import Shares, no_shares, shares

_SHRINK, _STEPS = 0.3, 24  # from width to width; at most, at each
_FLOOR = 0.05  # of a typical price, by which each counts as more than it is, as 0 may become a price too
_GOOD = 0.75  # of what a step promised, for the model to be trusted further than it was
_FORGOTTEN = 0.3  # of a bend there is left so much after such a step
_STIFF = 1e-5  # of a limit's capacity: so much less is wanted at twice the price, where nobody is torn about it
_IN_VAIN = 0.1  # of enough: what a last step may promise and not be taken
_SWEEPS, _SETTLED = 60, 1e-3  # over the prices, at most; until one gains no more than this part of all


@kernel
def smoothed_dual(
    rows: Rows,
    columns: Columns,
    capacity: Floats,
    prices: Floats,
    width: float,
    cost: Floats,
    own: Shares,
    gradient: Floats,
    hessian: Floats,
    with_slopes: bool,
) -> tuple[float, float]:
    """prices · capacity + sum over rows of width · log(sum over options of exp(worth / width)), and the dual.

    At most width · log(options) per row lie between the two. with_slopes: gradient and Hessian of the smoothed one
    are written into the arrays given; cost and own are written too, and of no use to others.
    """
    size = len(capacity)
    costs(columns, prices, cost)
    dual = 0.0
    for i in range(size):
        dual += prices[i] * capacity[i]
        gradient[i] = capacity[i]
    value = dual
    hessian[:] = 0.0
    column, odds = own.column, own.odds
    mean, some = np.zeros(size), np.empty(size, np.int64)  # what a row takes on average, and the limits of which
    for at in range(len(rows.order)):
        foresee(rows, at)
        row = rows.order[at]
        n, best, more = shares(rows, row, cost, width, own)
        dual += best
        if n == 0:
            continue
        value += best + more
        if not with_slopes:
            continue
        if n == 1:
            c = column[0]
            if c >= 0:
                for e in range(columns.begin[c], columns.begin[c + 1]):
                    gradient[columns.limit[e]] -= columns.amount[e]
            continue
        count = 0
        for i in range(n):
            c = column[i]
            if c < 0:
                continue
            for e in range(columns.begin[c], columns.begin[c + 1]):
                u, part = columns.limit[e], odds[i] * columns.amount[e]
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


@step
def _least_between(
    system: Floats, gradient: Floats, prices: Floats, low: Floats, high: Floats, trial: Floats
) -> None:
    """trial: where a quadratic model around the prices is least between low and high, by coordinate descent."""
    size = len(prices)
    for i in range(size):
        trial[i] = prices[i]
    gained = 0.0
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


@step
def _learn_bends(
    gradient: Floats, hessian: Floats, prices: Floats, next_gradient: Floats, trial: Floats, bend: Floats
) -> None:
    """Raise `bend` to the curvature that a step met in each price beyond what the Hessian at its start tells."""
    for i in range(len(prices)):
        change = trial[i] - prices[i]
        if change != 0.0:
            more = next_gradient[i] - gradient[i]
            for j in range(len(prices)):
                more -= hessian[i, j] * (trial[j] - prices[j])
            bend[i] = max(bend[i], more / change)


@kernel
def find_prices(
    rows: Rows,
    columns: Columns,
    capacity: Floats,
    low: Floats,
    high: Floats,
    prices: Floats,
    first_width: float,
    last_width: float,
    enough: float,
    reach: float,
    typical: float,
) -> tuple[int, float]:
    """Improve `prices` in place, from the first width to the last; (passes over the rows, the dual at the prices).

    low, high: (limits,) between which they stay. A step goes to where a quadratic model is least in the region in
    which it is trusted: at first within `reach` of every price, and of a little of a `typical` one, then in a
    larger or smaller one as its promises are kept or not. Where a step leads uphill it is mostly a single price
    that went too far, to where rows turn that are not torn yet; the next step knows of that bend. A width is done
    with where a step promises less than `enough`.
    """
    size = len(capacity)
    cost, own = np.empty(len(columns.begin) - 1), no_shares(len(rows.concave))
    gradient, hessian = np.empty(size), np.empty((size, size))
    next_gradient, next_hessian = np.empty(size), np.empty((size, size))
    trial, system, bend = np.empty(size), np.empty((size, size)), np.empty(size)
    scale, least, most = np.empty(size), np.empty(size), np.empty(size)
    passes, width = 0, first_width
    while True:
        is_last = False  # with a constant the pass would be compiled twice
        given = prices, width, cost, own, gradient, hessian, not is_last
        value, dual = smoothed_dual(rows, columns, capacity, *given)
        passes += 1
        bend[:] = 0.0
        was_uphill = False
        for _ in range(_STEPS):
            for i in range(size):
                for j in range(size):
                    system[i, j] = hessian[i, j]
                scale[i] = prices[i] + _FLOOR * typical + 1e-12
                system[i, i] += bend[i] + _STIFF * max(capacity[i], 1e-12) / scale[i]
                least[i] = max(prices[i] - reach * scale[i], low[i])
                most[i] = min(prices[i] + reach * scale[i], high[i])
            _least_between(system, gradient, prices, least, most, trial)
            promised, furthest = 0.0, 0.0
            for i in range(size):
                change = trial[i] - prices[i]
                furthest = max(furthest, abs(change) / scale[i])
                promised -= gradient[i] * change
                for j in range(size):
                    promised -= 0.5 * change * hessian[i, j] * (trial[j] - prices[j])
            held_back = furthest > 0.99 * reach
            if promised < enough and not was_uphill and (held_back or bend.any()):
                # Farther away, or without bends, more may be promised.
                if held_back:
                    reach *= 2.0
                else:
                    bend[:] = 0.0
                continue
            if promised < _IN_VAIN * enough:
                break
            is_last = promised < enough and not held_back
            given = trial, width, cost, own, next_gradient, next_hessian, not is_last
            found, found_dual = smoothed_dual(rows, columns, capacity, *given)
            passes += 1
            was_uphill = found >= value
            if was_uphill:
                if is_last:
                    break
                _learn_bends(gradient, hessian, prices, next_gradient, trial, bend)
                reach = 0.5 * furthest
                continue
            kept = (value - found) / promised
            for i in range(size):
                prices[i] = trial[i]
            value, dual = found, found_dual
            if is_last:
                break
            gradient, next_gradient = next_gradient, gradient
            hessian, next_hessian = next_hessian, hessian
            if kept > _GOOD:
                if held_back:
                    reach *= 2.0
                for i in range(size):
                    bend[i] *= _FORGOTTEN
        if width <= last_width:
            return passes, dual
        width = max(_SHRINK * width, last_width)
