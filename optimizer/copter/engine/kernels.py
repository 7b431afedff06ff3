"""Numeric kernels over sparse columns.

All release the GIL. They allocate little that grows with the program, except for what they return.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...compiled import kernel


class SparseColumns(NamedTuple):
    """A matrix A: column j holds the entries start[j] <= k < end[j] of (row[k], value[k])."""

    start: np.ndarray
    end: np.ndarray
    row: np.ndarray
    value: np.ndarray

    @classmethod
    def packed(cls, begin: np.ndarray, row: np.ndarray, value: np.ndarray) -> SparseColumns:
        """Return columns without gaps, as in scipy's csc_array: column j lies from begin[j] to begin[j + 1]."""
        return cls(begin[:-1], begin[1:], row, value)


@kernel
def dot(one: np.ndarray, other: np.ndarray) -> float:
    """Return one @ other, without waking the threads of a BLAS."""
    total = 0.0
    for i in range(len(one)):
        total += one[i] * other[i]
    return total


@kernel
def finite_square(sides: np.ndarray) -> float:
    """Return the sum of squares of the finite sides."""
    total = 0.0
    for side in sides:
        if abs(side) < math.inf:
            total += side * side
    return total


@kernel
def side_length(row_lower: np.ndarray, row_upper: np.ndarray) -> float:
    """Return the Euclidean length of each row's larger side in size. Infinite sides count as 0."""
    total = 0.0
    for i in range(len(row_lower)):
        low, high = abs(row_lower[i]), abs(row_upper[i])
        side = max(low if low < math.inf else 0.0, high if high < math.inf else 0.0)
        total += side * side
    return math.sqrt(total)


@kernel
def activity(sparse: SparseColumns, x: np.ndarray, out: np.ndarray) -> None:
    """Compute out = A @ x."""
    start, end, row, value = sparse
    out[:] = 0.0
    for j in range(len(x)):
        if x[j] != 0.0:
            for k in range(start[j], end[j]):
                out[row[k]] += value[k] * x[j]


@kernel
def activity_sizes(sparse: SparseColumns, x: np.ndarray, out: np.ndarray) -> None:
    """Compute out = |A| @ |x|."""
    start, end, row, value = sparse
    out[:] = 0.0
    for j in range(len(x)):
        if x[j] != 0.0:
            for k in range(start[j], end[j]):
                out[row[k]] += abs(value[k] * x[j])


@kernel
def transposed(sparse: SparseColumns, y: np.ndarray, out: np.ndarray) -> None:
    """Compute out = A.T @ y."""
    start, end, row, value = sparse
    for j in range(len(out)):
        total = 0.0
        for k in range(start[j], end[j]):
            total += value[k] * y[row[k]]
        out[j] = total


@kernel
def transposed_sizes(sparse: SparseColumns, y: np.ndarray, out: np.ndarray) -> None:
    """Compute out = |A.T| @ |y|."""
    start, end, row, value = sparse
    for j in range(len(out)):
        total = 0.0
        for k in range(start[j], end[j]):
            total += abs(value[k] * y[row[k]])
        out[j] = total


@kernel
def price(
    first: int,
    last: int,
    sparse: SparseColumns,
    cost: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    reduced: np.ndarray,
) -> tuple[float, float, float]:
    """Compute reduced = cost - A.T @ y of columns first to last.

    Return what the columns add to the dual objective, their squared violation, and the latter's worth at x.
    """
    start, end, row, value = sparse
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


@kernel
def broken_rows(
    sparse: SparseColumns, row_lower: np.ndarray, row_upper: np.ndarray, x: np.ndarray, activities: np.ndarray
) -> tuple[float, float]:
    """Write A @ x to `activities`. Return the squared sum of what is beyond its sides, and the worst row's part.

    A row's part is relative to 1 + |its nearest side| + the sizes of its terms.
    """
    sizes = np.empty(len(activities))
    activity(sparse, x, activities)
    activity_sizes(sparse, x, sizes)
    squares, worst = 0.0, 0.0
    for i in range(len(activities)):
        nearest = min(max(activities[i], row_lower[i]), row_upper[i])
        off = abs(activities[i] - nearest)
        squares += off * off
        worst = max(worst, off / (1.0 + abs(nearest) + sizes[i]))
    return squares, worst


class Judged(NamedTuple):
    """What `price` does not tell of x and y.

    broken, worst_row: as `broken_rows` returns.
    bound, wrong, off: what rows add to the results of `price`.
    worst_column: the largest wrong reduced cost, relative to 1 + |its cost| + the sizes of its terms.
    """

    objective: float
    bound: float
    broken: float
    worst_row: float
    wrong: float
    worst_column: float
    off: float


@kernel
def judge(
    sparse: SparseColumns,
    cost: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    row_lower: np.ndarray,
    row_upper: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    reduced: np.ndarray,
) -> Judged:
    """Judge x and y. `reduced` is cost - A.T @ y of all columns."""
    start, end, row, value = sparse
    activities, open_y = np.empty(len(y)), np.zeros(len(y))
    broken, worst_row = broken_rows(sparse, row_lower, row_upper, x, activities)
    bound, wrong, off = 0.0, 0.0, 0.0
    for i in range(len(y)):
        off += abs(y[i] * (activities[i] - min(max(activities[i], row_lower[i]), row_upper[i])))
        side = row_lower[i] if y[i] > 0.0 else row_upper[i]
        if math.isinf(side):
            open_y[i] = y[i]
            wrong += y[i] * y[i]
            off += abs(y[i] * activities[i])
        else:
            bound += y[i] * side
    objective, worst_column = 0.0, 0.0
    for j in range(len(cost)):
        objective += cost[j] * x[j]
        size, wrong_here = 1.0 + abs(cost[j]), 0.0
        for k in range(start[j], end[j]):
            size += abs(value[k] * y[row[k]])
            wrong_here += abs(value[k] * open_y[row[k]])
        if math.isinf(lower[j] if reduced[j] > 0.0 else upper[j]):
            wrong_here += abs(reduced[j])
        worst_column = max(worst_column, wrong_here / size)
    return Judged(objective, bound, broken, worst_row, wrong, worst_column, off)


@kernel
def distances(
    step: int,
    reduced: np.ndarray,
    scale: np.ndarray,
    x: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
) -> np.ndarray:
    """Return how much the scaled reduced cost of a column would have to change to move it.

    Only every step-th column counts, without those that are fixed.
    """
    out, count = np.empty(len(reduced) // step + 1), 0
    for j in range(0, len(reduced), step):
        if lower[j] < upper[j]:
            size = reduced[j] * scale[j]
            out[count] = -size if x[j] > lower[j] else size
            count += 1
    return out[:count]


@kernel
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
    """Write to `out` the columns, not held, that a change of `margin` in their scaled reduced cost would move.

    Return how many there are.
    """
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


@kernel
def gather(
    columns: np.ndarray, sparse: SparseColumns, row_scale: np.ndarray, column_scale: np.ndarray
) -> SparseColumns:
    """Return these columns, scaled and without gaps."""
    start, end, row, value = sparse
    size = 0
    for j in columns:
        size += end[j] - start[j]
    begin, its_row, its_value = np.empty(len(columns) + 1, np.int64), np.empty(size, row.dtype), np.empty(size)
    k = 0
    for c in range(len(columns)):
        j = columns[c]
        begin[c] = k
        for e in range(start[j], end[j]):
            its_row[k] = row[e]
            its_value[k] = value[e] * row_scale[row[e]] * column_scale[j]
            k += 1
    begin[len(columns)] = k
    return SparseColumns(begin[:-1], begin[1:], its_row, its_value)


@kernel
def conjugate_gradients(
    sparse: SparseColumns,
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

    `scratch` is (4, rows). Return the iterations done, at most `most`.
    """
    start, end, row, value = sparse
    rows = len(right)
    diagonal, rest, direction, image = scratch[0], scratch[1], scratch[2], scratch[3]
    for i in range(rows):
        diagonal[i] = rho + (sigma if row_free[i] else 0.0)
    for j in free:
        for k in range(start[j], end[j]):
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
            for k in range(start[j], end[j]):
                total += value[k] * direction[row[k]]
            total *= sigma
            for k in range(start[j], end[j]):
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
