"""Prices at which demand meets capacity: Newton's method on a dual smoothed less and less."""

from __future__ import annotations

import numpy as np

from ..compiled import kernel, step
from .rows import Columns, Flags, Floats, Rows, costs, foresee
from .shares import Shares, no_shares, shares

_SHRINK, _STEPS = 0.3, 24  # from width to width; at most, at each
_FORGOTTEN = 0.3  # of a bend there is left so much after a good step


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
def _newton(
    system: Floats, gradient: Floats, prices: Floats, low: Floats, high: Floats, free: Flags, trial: Floats
) -> None:
    """trial: where the free prices are best by a quadratic model, those that would leave the bounds held there.

    What the others are to be is sought anew with these where they are held: a step that is only cut off may well
    lead uphill. `free` is changed.
    """
    size = len(prices)
    right = np.empty(size)
    for i in range(size):
        trial[i], right[i] = prices[i], -gradient[i]
    held = True
    while held:
        held = False
        change = _solve(system, right, free)
        for i in range(size):
            if not free[i]:
                continue
            trial[i] = prices[i] + change[i]
            if trial[i] < low[i] or trial[i] > high[i]:
                trial[i] = min(max(trial[i], low[i]), high[i])
                free[i], held = False, True
                for j in range(size):
                    right[j] -= system[j, i] * (trial[i] - prices[i])


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
) -> tuple[int, float]:
    """Improve `prices` in place, from the first width to the last; (passes over the rows, the dual at the prices).

    low, high: (limits,) between which they stay. Newton steps, damped as their promises are kept or not (Levenberg
    and Marquardt). Where one leads uphill it is mostly a single price that went too far, to where rows turn that
    are not torn yet; the next step knows of that bend. A width is done with where a step promises less than
    `enough`.
    """
    size = len(capacity)
    cost, own = np.empty(len(columns.begin) - 1), no_shares(len(rows.concave))
    gradient, hessian = np.empty(size), np.empty((size, size))
    next_gradient, next_hessian = np.empty(size), np.empty((size, size))
    free, trial, system = np.empty(size, np.bool_), np.empty(size), np.empty((size, size))
    bend = np.zeros(size)
    passes, width, damping = 0, first_width, 1e-2
    while True:
        value, dual = smoothed_dual(rows, columns, capacity, prices, width, cost, own, gradient, hessian, True)
        passes += 1
        bend[:] = 0.0
        for _ in range(_STEPS):
            for i in range(size):
                free[i] = (prices[i] > low[i] or gradient[i] < 0.0) and (prices[i] < high[i] or gradient[i] > 0.0)
                for j in range(size):
                    system[i, j] = hessian[i, j]
                # A limit that nobody is torn about gives no curvature; a little of its capacity's stands in.
                system[i, i] += bend[i] + damping * max(hessian[i, i], 1e-3 * capacity[i] / width) + 1e-12
            _newton(system, gradient, prices, low, high, free, trial)
            promised = 0.0
            for i in range(size):
                promised -= gradient[i] * (trial[i] - prices[i])
                for j in range(size):
                    promised -= 0.5 * (trial[i] - prices[i]) * hessian[i, j] * (trial[j] - prices[j])
            if promised < 0.0:
                damping = min(10.0 * damping, 1e6)
                continue
            if promised < enough and bend.any():
                bend[:] = 0.0  # without them more may be promised
                continue
            if promised < 1e-2 * enough:
                break
            is_last = promised < enough
            given = trial, width, cost, own, next_gradient, next_hessian, not is_last
            found, found_dual = smoothed_dual(rows, columns, capacity, *given)
            passes += 1
            kept = (value - found) / promised
            if found >= value and not is_last:
                _learn_bends(gradient, hessian, prices, next_gradient, trial, bend)
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
                for i in range(size):
                    bend[i] *= _FORGOTTEN
            elif kept < 0.25:
                damping = min(10.0 * damping, 1e6)
        if width <= last_width:
            return passes, dual
        width = max(_SHRINK * width, last_width)
