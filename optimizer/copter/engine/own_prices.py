"""Finds the best prices of requests' own rows, given the prices of what requests share, in one sweep.

A new request, or one with new costs, has no prices of its own rows yet. At prices of 0 nearly all its columns seem
worth having. Along one price the dual is concave and piecewise linear, so its maximum is found exactly. The sweep
is coordinate ascent on the dual over the rows that concern one request alone.
"""

from __future__ import annotations

import math

import numpy as np

from ...compiled import kernel
from .kernels import SparseColumns
from .storage import OWN


@kernel
def _entries_of(sparse: SparseColumns, is_own: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (begin, column, value) of the entries in own rows, row after row. Other rows have none."""
    start, end, row, value = sparse
    rows, columns = len(is_own), len(start)
    begin = np.zeros(rows + 1, np.int64)
    for j in range(columns):
        for k in range(start[j], end[j]):
            begin[row[k] + 1] += is_own[row[k]]
    for i in range(rows):
        begin[i + 1] += begin[i]
    fill = begin[:-1].copy()
    column, held = np.empty(begin[rows], np.int64), np.empty(begin[rows])
    for j in range(columns):
        for k in range(start[j], end[j]):
            i = row[k]
            if is_own[i]:
                column[fill[i]], held[fill[i]] = j, value[k]
                fill[i] += 1
    return begin, column, held


@kernel
def _nearest_best(
    price: float, slope: float, at: np.ndarray, drop: np.ndarray, floor: float, ceiling: float
) -> float:
    """Return the maximiser nearest to `price`, between floor and ceiling, of a concave piecewise linear function.

    The function begins with `slope`, which falls by `drop` at each of `at`.
    """
    low, high, k = -math.inf, -math.inf, 0
    order = np.argsort(at)
    while k < len(at) and slope > 0.0:
        low = high = at[order[k]]
        slope -= drop[order[k]]
        k += 1
    if slope > 0.0:
        low = high = math.inf
    elif slope == 0.0:
        high = at[order[k]] if k < len(at) else math.inf
    low, high = min(max(low, floor), ceiling), min(max(high, floor), ceiling)
    return min(max(price, low), high)


@kernel
def improve_own_prices(
    sparse: SparseColumns,
    kind: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    row_lower: np.ndarray,
    row_upper: np.ndarray,
    y: np.ndarray,
    reduced: np.ndarray,
) -> None:
    """Set the price y of each row of kind OWN in turn to the dual's nearest maximiser, and update `reduced`.

    `reduced` is cost - A.T @ y. A price stays if the row's columns allow no finite one.
    """
    begin, column, value = _entries_of(sparse, kind == OWN)
    at, drop = np.empty(len(column) + 1), np.empty(len(column) + 1)
    for i in range(len(y)):
        if begin[i] == begin[i + 1]:
            continue
        # At a higher price columns turn to their other bound. No price may lead to an infinite one.
        n, taken, floor, ceiling = 0, 0.0, -math.inf, math.inf
        for k in range(begin[i], begin[i + 1]):
            j, a = column[k], value[k]
            turns = y[i] + reduced[j] / a
            before, after = (a * lower[j], a * upper[j]) if a > 0.0 else (a * upper[j], a * lower[j])
            if before == -math.inf:
                floor = max(floor, turns)
            if after == math.inf:
                ceiling = min(ceiling, turns)
            if before > -math.inf:
                taken += before
                if before < after < math.inf:
                    at[n], drop[n] = turns, after - before
                    n += 1
            elif after < math.inf:
                taken += after
        if row_lower[i] == -math.inf:
            ceiling = min(ceiling, 0.0)
        if row_upper[i] == math.inf:
            floor = max(floor, 0.0)
            slope = row_lower[i] - taken
        else:
            slope = row_upper[i] - taken
            if row_lower[i] > -math.inf:
                at[n], drop[n] = 0.0, row_upper[i] - row_lower[i]
                n += 1
        best = _nearest_best(y[i], slope, at[:n], drop[:n], floor, ceiling)
        if floor <= ceiling and math.isfinite(best) and best != y[i]:
            for k in range(begin[i], begin[i + 1]):
                reduced[column[k]] -= value[k] * (best - y[i])
            y[i] = best
