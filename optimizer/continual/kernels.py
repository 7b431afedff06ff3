"""Numeric kernels over sparse columns: column j holds entries start[j] <= k < end[j] of (row[k], value[k]).

All release the GIL and allocate nothing that grows with the program but what they return.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def dot(one: np.ndarray, other: np.ndarray) -> float:
    """one @ other, without waking the threads of a BLAS."""
    total = 0.0
    for i in range(len(one)):
        total += one[i] * other[i]
    return total


@njit(cache=True, nogil=True)
def activity(
    start: np.ndarray, end: np.ndarray, row: np.ndarray, value: np.ndarray, x: np.ndarray, out: np.ndarray
) -> None:
    """out = A @ x."""
    out[:] = 0.0
    for j in range(len(x)):
        if x[j] != 0.0:
            for k in range(start[j], end[j]):
                out[row[k]] += value[k] * x[j]


@njit(cache=True, nogil=True)
def transposed(
    start: np.ndarray, end: np.ndarray, row: np.ndarray, value: np.ndarray, y: np.ndarray, out: np.ndarray
) -> None:
    """out = A.T @ y."""
    for j in range(len(out)):
        total = 0.0
        for k in range(start[j], end[j]):
            total += value[k] * y[row[k]]
        out[j] = total


@njit(cache=True, nogil=True)
def price(
    first: int,
    last: int,
    start: np.ndarray,
    end: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    cost: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    reduced: np.ndarray,
) -> tuple[float, float, float]:
    """reduced = cost - A.T @ y of columns first to last.

    Returns what they add to the dual objective; violation ** 2; and what the objective may be off by for it, at x.
    """
    bound, violation, off = 0.0, 0.0, 0.0
    for j in range(first, last):
        total = cost[j]
        for k in range(start[j], end[j]):
            total -= value[k] * y[row[k]]
        reduced[j] = total
        side = lower[j] if total > 0.0 else upper[j]
        if math.isinf(side):
            violation += total * total
            off += abs(total * x[j])
        elif total != 0.0:
            bound += total * side
    return bound, violation, off


@njit(cache=True, nogil=True)
def wanted(
    first: int,
    last: int,
    reduced: np.ndarray,
    scale: np.ndarray,
    x: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    held: np.ndarray,
    margin: float,
    out: np.ndarray,
) -> int:
    """Columns, not held, that a change of `margin` in their scaled reduced cost would move; how many."""
    count = 0
    for j in range(first, last):
        if held[j] or lower[j] == upper[j]:
            continue
        size = reduced[j] * scale[j]
        take = (size < margin or x[j] > lower[j]) and (size > -margin or x[j] < upper[j])
        if take:
            out[count] = j
            count += 1
    return count


@njit(cache=True, nogil=True)
def gather(
    columns: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    row_scale: np.ndarray,
    column_scale: np.ndarray,
    out_start: np.ndarray,
    out_row: np.ndarray,
    out_value: np.ndarray,
) -> None:
    """The columns, scaled, one behind another."""
    k = 0
    for c in range(len(columns)):
        j = columns[c]
        out_start[c] = k
        for e in range(start[j], end[j]):
            out_row[k] = row[e]
            out_value[k] = value[e] * row_scale[row[e]] * column_scale[j]
            k += 1
    out_start[len(columns)] = k


@njit(cache=True, nogil=True)
def conjugate_gradients(
    start: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    free: np.ndarray,
    row_free: np.ndarray,
    sigma: float,
    rho: float,
    right: np.ndarray,
    out: np.ndarray,
    tolerance: float,
    most: int,
    scratch: np.ndarray,
) -> int:
    """Solve (sigma (A_F A_F.T + I_free) + rho) out = right for the free columns F, preconditioned by the diagonal.

    scratch: (4, rows). Returns the iterations done, at most `most`.
    """
    rows = len(right)
    diagonal, rest, direction, image = scratch[0], scratch[1], scratch[2], scratch[3]
    for i in range(rows):
        diagonal[i] = rho + (sigma if row_free[i] else 0.0)
    for j in free:
        for k in range(start[j], start[j + 1]):
            diagonal[row[k]] += sigma * value[k] * value[k]
    product, size = 0.0, 0.0
    for i in range(rows):
        out[i] = 0.0
        rest[i] = right[i]
        direction[i] = right[i] / diagonal[i]
        product += right[i] * direction[i]
        size += right[i] * right[i]
    enough = tolerance * tolerance * size
    done = 0
    while done < most and size > enough:
        for i in range(rows):
            image[i] = (rho + (sigma if row_free[i] else 0.0)) * direction[i]
        for j in free:
            total = 0.0
            for k in range(start[j], start[j + 1]):
                total += value[k] * direction[row[k]]
            total *= sigma
            for k in range(start[j], start[j + 1]):
                image[row[k]] += value[k] * total
        curvature = 0.0
        for i in range(rows):
            curvature += direction[i] * image[i]
        if not curvature > 0.0:
            break
        step = product / curvature
        size, last = 0.0, product
        product = 0.0
        for i in range(rows):
            out[i] += step * direction[i]
            rest[i] -= step * image[i]
            size += rest[i] * rest[i]
            product += rest[i] * rest[i] / diagonal[i]
        for i in range(rows):
            direction[i] = rest[i] / diagonal[i] + product / last * direction[i]
        done += 1
    return done
