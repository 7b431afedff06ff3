"""Prices at which demand meets capacity: Newton's method on a dual smoothed less and less."""

from __future__ import annotations

import numpy as np

from ..compiled import kernel, step
from .rows import WORST, Columns, Flags, Floats, Ints, Rows, costs, peak

_BAND = 8.0  # options worth less than the best by this many widths do not count
_SHRINK, _STEPS = 0.3, 12  # from width to width; at most, at each


@step
def _tops(rows: Rows, row: int, cost: Floats, top: Ints, worth: Floats) -> float:
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
def _near(
    rows: Rows,
    row: int,
    cost: Floats,
    best: float,
    width: float,
    top: Ints,
    most: Floats,
    chosen: Ints,
    odds: Floats,
) -> tuple[int, float]:
    """Columns of a row that count, with their shares of its choice; returns how many, and the smoothed worth."""
    least = best - _BAND * width
    n = 0
    if not rows.required[row] and least < 0.0:
        chosen[n], odds[n] = -1, 0.0
        n += 1
    stay = rows.stay_column[row]
    if stay >= 0 and rows.stay_gain[row] - cost[stay] > least:
        chosen[n], odds[n] = stay, rows.stay_gain[row] - cost[stay]
        n += 1
    scale, offset = rows.scale[row], rows.offset[row]
    for g in range(len(rows.concave)):
        if most[g] <= least:
            continue
        begin, end = rows.begin[row, g], rows.end[row, g]
        for k in range(top[g], end):
            worth = offset + scale * rows.value[k] - cost[rows.column[k]]
            if worth > least:
                if n < len(chosen):
                    chosen[n], odds[n] = rows.column[k], worth
                    n += 1
            elif rows.concave[g]:
                break
        for k in range(top[g] - 1, begin - 1, -1):
            worth = offset + scale * rows.value[k] - cost[rows.column[k]]
            if worth <= least:
                break
            if n < len(chosen):
                chosen[n], odds[n] = rows.column[k], worth
                n += 1
    if n == 1:
        odds[0] = 1.0
        return 1, best
    total = 0.0
    for i in range(n):
        odds[i] = np.exp((odds[i] - best) / width)
        total += odds[i]
    for i in range(n):
        odds[i] /= total
    return n, best + width * np.log(total)


@kernel
def smoothed_dual(
    rows: Rows,
    columns: Columns,
    capacity: Floats,
    prices: Floats,
    width: float,
    cost: Floats,
    gradient: Floats,
    hessian: Floats,
    with_slopes: bool,
) -> tuple[float, float]:
    """prices · capacity + sum over rows of width · log(sum over options of exp(worth / width)), and the dual.

    At most width · log(options) per row lie between the two. with_slopes: gradient and Hessian of the smoothed one
    are written into the arrays given.
    """
    size = len(capacity)
    costs(columns, prices, cost)
    dual = 0.0
    for i in range(size):
        dual += prices[i] * capacity[i]
        gradient[i] = capacity[i]
    value = dual
    hessian[:] = 0.0
    chosen, odds = np.empty(256, np.int64), np.empty(256)
    top, most = np.empty(len(rows.concave), np.int64), np.empty(len(rows.concave))
    mean = np.zeros(size)
    for row in rows.order:
        best = _tops(rows, row, cost, top, most)
        dual += best
        if best <= WORST:
            continue
        n, worth = _near(rows, row, cost, best, width, top, most, chosen, odds)
        value += worth
        if not with_slopes:
            continue
        if n == 1:
            c = chosen[0]
            if c >= 0:
                for e in range(columns.begin[c], columns.begin[c + 1]):
                    gradient[columns.limit[e]] -= columns.amount[e]
            continue
        mean[:] = 0.0
        for i in range(n):
            c = chosen[i]
            if c < 0:
                continue
            for e in range(columns.begin[c], columns.begin[c + 1]):
                mean[columns.limit[e]] += odds[i] * columns.amount[e]
                for f in range(columns.begin[c], columns.begin[c + 1]):
                    hessian[columns.limit[e], columns.limit[f]] += (
                        odds[i] * columns.amount[e] * columns.amount[f] / width
                    )
        for i in range(size):
            if mean[i] != 0.0:
                gradient[i] -= mean[i]
                for m in range(size):
                    hessian[i, m] -= mean[i] * mean[m] / width
    return value, dual


@kernel
def _solve(matrix: Floats, right: Floats, free: Flags) -> Floats:
    """Gaussian elimination over the free variables, others 0."""
    size = len(right)
    work, x = matrix.copy(), right.copy()
    for i in range(size):
        if not free[i]:
            for j in range(size):
                work[i, j] = work[j, i] = 0.0
            work[i, i] = 1.0
            x[i] = 0.0
    for i in range(size):
        for m in range(i + 1, size):
            factor = work[m, i] / work[i, i]
            if factor != 0.0:
                for j in range(i, size):
                    work[m, j] -= factor * work[i, j]
                x[m] -= factor * x[i]
    for i in range(size - 1, -1, -1):
        for j in range(i + 1, size):
            x[i] -= work[i, j] * x[j]
        x[i] /= work[i, i]
    return x


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
) -> tuple[int, float]:
    """Improve `prices` in place, from the first width to the last; (passes over the rows, the dual at the prices).

    low, high: (limits,) between which they stay. Newton steps, damped as their promises are kept or not (Levenberg
    and Marquardt). A width is done with when a step promises less than `enough`.
    """
    size = len(capacity)
    cost = np.empty(len(columns.begin) - 1)
    gradient, hessian = np.empty(size), np.empty((size, size))
    next_gradient, next_hessian = np.empty(size), np.empty((size, size))
    free, down, trial, system = np.empty(size, np.bool_), np.empty(size), np.empty(size), np.empty((size, size))
    passes, width, damping = 0, first_width, 1e-3
    while True:
        value, dual = smoothed_dual(rows, columns, capacity, prices, width, cost, gradient, hessian, True)
        passes += 1
        for _ in range(_STEPS):
            for i in range(size):
                free[i] = (prices[i] > low[i] or gradient[i] < 0.0) and (prices[i] < high[i] or gradient[i] > 0.0)
                down[i] = -gradient[i]
                for j in range(size):
                    system[i, j] = hessian[i, j]
                # A limit that nobody is torn about gives no curvature; a little of its capacity's stands in.
                system[i, i] += damping * max(hessian[i, i], 1e-3 * capacity[i] / width) + 1e-12
            step = _solve(system, down, free)
            for i in range(size):
                trial[i] = min(max(prices[i] + step[i], low[i]), high[i])
            promised = 0.0
            for i in range(size):
                promised -= gradient[i] * (trial[i] - prices[i])
                for j in range(size):
                    promised -= 0.5 * (trial[i] - prices[i]) * hessian[i, j] * (trial[j] - prices[j])
            if promised < 1e-2 * enough:
                break
            is_last = promised < enough
            given = trial, width, cost, next_gradient, next_hessian
            found, found_dual = smoothed_dual(rows, columns, capacity, *given, not is_last)
            passes += 1
            kept = (value - found) / promised
            if found < value:
                for i in range(size):
                    prices[i] = trial[i]
                value, dual = found, found_dual
                if is_last:
                    break
                gradient, next_gradient = next_gradient, gradient
                hessian, next_hessian = next_hessian, hessian
            if kept > 0.75:
                damping = max(0.1 * damping, 1e-9)
            elif kept < 0.25:
                damping = min(10.0 * damping, 1e6)
        if width <= last_width:
            return passes, dual
        width = max(_SHRINK * width, last_width)
