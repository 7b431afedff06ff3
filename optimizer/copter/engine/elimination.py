"""Solves Newton systems directly: rows that share no column are eliminated, and leave a small dense system.

Every request's own "pick at most one" is such a row. Over these rows the matrix  sigma (A_F A_F.T + I_free) + rho
is diagonal. Only the coupling rows remain to be factorised. They are few, whatever the number of requests.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compiled import kernel
from .kernels import SparseColumns

SINGULAR = 1e-14  # a pivot that falls below this share of what it was belongs to a row that others imply


class Elimination(NamedTuple):
    """Which rows are eliminated.

    own: (columns,) the one eliminated row of each column; -1 for none.
    place: (rows,) each row's number in the dense system; -1 if it is eliminated.
    grouped: (columns,) sorted by `own`, those without one last.
    dense: the number of rows left.
    """

    own: np.ndarray
    place: np.ndarray
    grouped: np.ndarray
    dense: int


@kernel
def elimination(sparse: SparseColumns, rows: int) -> Elimination:
    """Choose rows without a column in common, those with the fewest entries first. Entries lie without gaps."""
    start, end, row = sparse.start, sparse.end, sparse.row
    columns = len(start)
    begin = np.zeros(rows + 1, np.int64)
    for i in row:
        begin[i + 1] += 1
    counts = begin[1:].copy()
    for i in range(rows):
        begin[i + 1] += begin[i]
    column, fill = np.empty(len(row), np.int64), begin[:-1].copy()
    for j in range(columns):
        for k in range(start[j], end[j]):
            column[fill[row[k]]] = j
            fill[row[k]] += 1
    own, place, grouped = np.full(columns, -1, np.int64), np.full(rows, -1, np.int64), np.empty(columns, np.int64)
    done, dense = 0, 0
    for i in np.argsort(counts, kind="mergesort"):
        alone = True
        for k in range(begin[i], begin[i + 1]):
            if own[column[k]] >= 0:
                alone = False
                break
        if alone:
            for k in range(begin[i], begin[i + 1]):
                own[column[k]] = i
                grouped[done] = column[k]
                done += 1
        else:
            place[i] = dense
            dense += 1
    for j in range(columns):
        if own[j] < 0:
            grouped[done] = j
            done += 1
    return Elimination(own, place, grouped, dense)


@kernel
def _factorise(matrix: np.ndarray) -> None:
    """Compute the Cholesky factor in the lower triangle. A vanishing pivot becomes huge, so its unknown is 0."""
    for j in range(len(matrix)):
        pivot = matrix[j, j]
        least = SINGULAR * pivot
        for k in range(j):
            pivot -= matrix[j, k] * matrix[j, k]
        matrix[j, j] = np.sqrt(pivot) if pivot > least else 1e100
        for i in range(j + 1, len(matrix)):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = total / matrix[j, j]


@kernel
def _substitute(factor: np.ndarray, right: np.ndarray) -> None:
    """Turn `right` into the solution for the factorised matrix."""
    size = len(right)
    for i in range(size):
        total = right[i]
        for k in range(i):
            total -= factor[i, k] * right[k]
        right[i] = total / factor[i, i]
    for i in range(size - 1, -1, -1):
        right[i] /= factor[i, i]
        for k in range(i):
            right[k] -= factor[i, k] * right[i]


@kernel
def eliminate(
    sparse: SparseColumns,
    rule: Elimination,
    is_free: np.ndarray,
    row_free: np.ndarray,
    sigma: float,
    rho: float,
    right: np.ndarray,
    out: np.ndarray,
) -> None:
    """Solve (sigma (A_F A_F.T + I_free) + rho) out = right for the columns F that are free, to rounding."""
    start, end, row, value = sparse
    own, place, grouped = rule.own, rule.place, rule.grouped
    matrix, rest = np.zeros((rule.dense, rule.dense)), np.empty(rule.dense)
    shared, touched = np.zeros(rule.dense), np.empty(rule.dense, np.int64)
    seen = np.zeros(rule.dense, np.bool_)
    diagonal = np.empty(len(right))
    for i in range(len(right)):
        diagonal[i] = rho + (sigma if row_free[i] else 0.0)
        if place[i] >= 0:
            matrix[place[i], place[i]] = diagonal[i]
            rest[place[i]] = right[i]
    at = 0
    while at < len(grouped):
        mine, count = own[grouped[at]], 0
        while at < len(grouped) and own[grouped[at]] == mine:
            j = grouped[at]
            at += 1
            if not is_free[j]:
                continue
            of_own = 0.0
            for k in range(start[j], end[j]):
                if row[k] == mine:
                    of_own = value[k]
            if mine >= 0:
                diagonal[mine] += sigma * of_own * of_own
            for k in range(start[j], end[j]):
                p = place[row[k]]
                if p < 0:
                    continue
                if mine >= 0:
                    if not seen[p]:
                        seen[p] = True
                        touched[count] = p
                        count += 1
                    shared[p] += sigma * of_own * value[k]
                for m in range(start[j], end[j]):
                    q = place[row[m]]
                    if 0 <= q <= p:
                        matrix[p, q] += sigma * value[k] * value[m]
        for a in range(count):
            p = touched[a]
            share = shared[p] / diagonal[mine]
            rest[p] -= share * right[mine]
            for b in range(count):
                if touched[b] <= p:
                    matrix[p, touched[b]] -= share * shared[touched[b]]
        for a in range(count):
            shared[touched[a]], seen[touched[a]] = 0.0, False
    _factorise(matrix)
    _substitute(matrix, rest)
    for i in range(len(right)):
        out[i] = rest[place[i]] if place[i] >= 0 else right[i]
    for j in grouped:
        mine = own[j]
        if mine < 0 or not is_free[j]:
            continue
        of_own, along = 0.0, 0.0
        for k in range(start[j], end[j]):
            if row[k] == mine:
                of_own = value[k]
            else:
                along += value[k] * rest[place[row[k]]]
        out[mine] -= sigma * of_own * along
    for i in range(len(right)):
        if place[i] < 0:
            out[i] /= diagonal[i]
