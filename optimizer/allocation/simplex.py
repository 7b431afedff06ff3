"""Solves the LP relaxation from a plan near its optimum, by a simplex method with a basis of the limits alone.

The method is generalised upper bounding (Dantzig and Van Slyke, 1967). A row's own constraint eliminates one of
its basic variables, its *key*. For K limits a basis of K x K is left, for any number of rows. Nearly all pivots
move one row between two whole picks, and change neither basis nor prices. At most K rows of a vertex are
fractional, so rounding it loses little.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiled import constant, kernel, step
from .options import Columns, Floats, Ints, Rows, best_of, column_of, costs, gain_of
from .rounding import move

SLACK = constant(-1)  # in place of a row: the basic variable is what is left of a limit
_ZERO = 1e-11
_REFRESH = 50  # pivots between two inversions of the basis
_MINOR = 50  # sweeps over the rows that have pivoted, before all rows are looked at again


class Basis(NamedTuple):
    """The basic variables. One of row `SLACK` is the slack of limit `pick`.

    key: (rows,) the pick of each row that is its key.
    row, pick, level: (K,) the other basic variables.
    prices, inverse: (K,) and (K, K) of the basis.
    room: (K,) what is left of the capacity if every row takes its key whole.
    """

    key: Ints
    row: Ints
    pick: Ints
    level: Floats
    prices: Floats
    inverse: Floats
    room: Floats


def from_plan(picks: Ints, room: Floats) -> Basis:
    """Return the basis of a plan: its picks as keys, and all slacks. Pivots change `picks` and `room` in place."""
    size = len(room)
    row, pick = np.full(size, SLACK, np.int64), np.arange(size)
    return Basis(picks, row, pick, room.copy(), np.zeros(size), np.eye(size), room)


@step
def _holds(array: Ints, item: int) -> bool:
    found = False
    for other in array:
        found = found or other == item
    return found


@step
def _cost_of(columns: Columns, column: int, prices: Floats) -> float:
    cost = 0.0
    if column >= 0:
        if columns.barred[column]:
            return np.inf
        for e in range(columns.begin[column], columns.begin[column + 1]):
            cost += columns.amount[e] * prices[columns.limit[e]]
    return cost


@kernel
def _invert(matrix: Floats, inverse: Floats) -> bool:
    """Write the inverse by Gauss-Jordan with partial pivoting. Return False if the matrix is singular."""
    size = len(matrix)
    work = matrix.copy()
    inverse[:] = 0.0
    for i in range(size):
        inverse[i, i] = 1.0
    for i in range(size):
        pivot = i
        for m in range(i + 1, size):
            if abs(work[m, i]) > abs(work[pivot, i]):
                pivot = m
        if abs(work[pivot, i]) < 1e-9:
            return False
        if pivot != i:
            for j in range(size):
                work[i, j], work[pivot, j] = work[pivot, j], work[i, j]
                inverse[i, j], inverse[pivot, j] = inverse[pivot, j], inverse[i, j]
        factor = 1.0 / work[i, i]
        for j in range(size):
            work[i, j] *= factor
            inverse[i, j] *= factor
        for m in range(size):
            factor = work[m, i]
            if m != i and factor != 0.0:
                for j in range(size):
                    work[m, j] -= factor * work[i, j]
                    inverse[m, j] -= factor * inverse[i, j]
    return True


@step
def _change(columns: Columns, old: int, new: int, out: Floats) -> None:
    """Write what a row takes more of each limit after a change of column (-1: none)."""
    out[:] = 0.0
    if new >= 0:
        for e in range(columns.begin[new], columns.begin[new + 1]):
            out[columns.limit[e]] += columns.amount[e]
    if old >= 0:
        for e in range(columns.begin[old], columns.begin[old + 1]):
            out[columns.limit[e]] -= columns.amount[e]


@kernel
def _refresh(rows: Rows, columns: Columns, basis: Basis) -> bool:
    """Compute inverse, levels and prices from the basic variables. Return False if these are no basis."""
    size = len(basis.row)
    matrix, change = np.zeros((size, size)), np.empty(size)
    for i in range(size):
        row = basis.row[i]
        if row == SLACK:
            matrix[basis.pick[i], i] = 1.0
        else:
            _change(columns, column_of(rows, row, basis.key[row]), column_of(rows, row, basis.pick[i]), change)
            for u in range(size):
                matrix[u, i] = change[u]
    if not _invert(matrix, basis.inverse):
        return False
    _settle(rows, basis)
    return True


@step
def _settle(rows: Rows, basis: Basis) -> None:
    """Write the levels and prices that follow from the inverse."""
    size = len(basis.row)
    basis.prices[:] = 0.0
    for i in range(size):
        level = 0.0
        for u in range(size):
            level += basis.inverse[i, u] * basis.room[u]
        basis.level[i] = level
        row = basis.row[i]
        if row != SLACK:
            more = gain_of(rows, row, basis.pick[i]) - gain_of(rows, row, basis.key[row])
            for u in range(size):
                basis.prices[u] += more * basis.inverse[i, u]


@step
def _enter(
    rows: Rows, columns: Columns, basis: Basis, row: int, pick: int, direction: Floats, change: Floats
) -> int:
    """Make `pick` of `row`, or the slack of limit `pick`, basic: a pivot.

    Return 0 if a whole row changed its pick, and 1 if another variable left the basis. Return 2 if a row's key
    did; inverse, levels and prices must then be computed anew. Return -1 if nothing limits the step by rounding.
    """
    size = len(basis.row)
    if row == SLACK:
        change[:] = 0.0
        change[pick] = 1.0
    else:
        _change(columns, column_of(rows, row, basis.key[row]), column_of(rows, row, pick), change)
    for i in range(size):
        d = 0.0
        for u in range(size):
            d += basis.inverse[i, u] * change[u]
        direction[i] = d

    # The step ends when a basic variable becomes 0, or the key of a row with another basic variable does.
    step, leaving, heirless = np.inf, -1, SLACK
    own = False
    for i in range(size):
        if direction[i] > _ZERO:
            reach = max(basis.level[i], 0.0) / direction[i]
            if reach < step:
                step, leaving, heirless = reach, i, -1
        other = basis.row[i]
        if other == SLACK:
            continue
        first = True
        for m in range(i):
            first = first and basis.row[m] != other
        if not first:
            continue
        level, slope = 1.0, 0.0
        for m in range(i, size):
            if basis.row[m] == other:
                level -= basis.level[m]
                slope += direction[m]
        if other == row:
            own = True
            slope -= 1.0
        if slope < -_ZERO:
            reach = max(level, 0.0) / -slope
            if reach < step:
                step, leaving, heirless = reach, -1, other
    if row != SLACK and not own and step > 1.0:
        for i in range(size):
            basis.room[i] -= change[i]
            basis.level[i] -= direction[i]
        basis.key[row] = pick
        return 0
    if leaving < 0 and heirless < 0:
        return -1
    if leaving >= 0:
        for u in range(size):
            basis.inverse[leaving, u] /= direction[leaving]
        for i in range(size):
            factor = direction[i]
            if i != leaving and factor != 0.0:
                for u in range(size):
                    basis.inverse[i, u] -= factor * basis.inverse[leaving, u]
        basis.row[leaving], basis.pick[leaving] = row, pick
        _settle(rows, basis)
        return 1
    heir = -1
    for i in range(size):
        if basis.row[i] == heirless and (heir < 0 or basis.level[i] > basis.level[heir]):
            heir = i
    old, new = basis.key[heirless], basis.pick[heir]
    move(columns, column_of(rows, heirless, old), column_of(rows, heirless, new), basis.room)
    basis.key[heirless] = new
    basis.row[heir], basis.pick[heir] = row, pick
    return 2


@kernel
def _pivot(
    rows: Rows, columns: Columns, basis: Basis, row: int, pick: int, direction: Floats, change: Floats
) -> int:
    """Do what `_enter` does, and compute anew what must be. Return -1 also if rounding errors leave no basis."""
    done = _enter(rows, columns, basis, row, pick, direction, change)
    return -1 if done == 2 and not _refresh(rows, columns, basis) else done


class Entering(NamedTuple):
    """Rows and picks that are to become basic. An entry of row `SLACK` is none."""

    row: Ints
    pick: Ints


NONE_FIRST = Entering(np.empty(0, np.int64), np.empty(0, np.int64))


@kernel
def cheapest_growth(rows: Rows, columns: Columns, basis: Basis, prices: Floats) -> Entering:
    """Return for every limit with a price the row and pick that take more of it at the least loss per unit.

    With these in the basis its prices are about the given ones.
    """
    size = len(prices)
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    row_of, pick_of = np.empty(size, np.int64), np.zeros(size, np.int64)
    least, change = np.empty(size), np.empty(size)
    least[:] = np.inf
    row_of[:] = SLACK
    for row in rows.order:
        key = basis.key[row]
        old = column_of(rows, row, key)
        worth = gain_of(rows, row, key) - (cost[old] if old >= 0 else 0.0)
        for g in range(len(rows.concave)):
            for k in range(rows.begin[row, g], rows.end[row, g]):
                column = column_of(rows, row, k)
                if columns.begin[column] == columns.begin[column + 1]:
                    continue
                loss = worth - (rows.offset[row] + rows.scale[row] * rows.value[k] - cost[column])
                _change(columns, old, column, change)
                grows = False
                for e in range(columns.begin[column], columns.begin[column + 1]):
                    u = columns.limit[e]
                    if change[u] > 0.0 and prices[u] > 0.0:
                        grows = True
                        if loss / change[u] < least[u]:
                            least[u], row_of[u], pick_of[u] = loss / change[u], row, k
                if grows and rows.concave[g]:
                    break
    return Entering(row_of, pick_of)


@step
def _wanted(
    rows: Rows, columns: Columns, basis: Basis, row: int, cost: Floats, tolerance: float
) -> tuple[int, float]:
    """Return a row's best pick at `cost`, and what it would gain there over its key.

    `cost` may be some pivots old. If the pick does not gain at the basis' own prices, return the row's key.
    """
    key = basis.key[row]
    column = column_of(rows, row, key)
    worth, pick = best_of(rows, row, cost)
    has = gain_of(rows, row, key)
    more = worth - has + (cost[column] if column >= 0 else 0.0)
    if pick == key or more <= tolerance:
        return key, 0.0
    gains = gain_of(rows, row, pick) - _cost_of(columns, column_of(rows, row, pick), basis.prices)
    if gains <= has - _cost_of(columns, column, basis.prices) + tolerance:
        return key, more
    return pick, more


@kernel
def optimise(
    rows: Rows, columns: Columns, basis: Basis, first: Entering, tolerance: float, enough: float, most_pivots: int
) -> tuple[bool, int]:
    """Make pivots until at most `enough` is left to gain. Return whether that was reached, and their number.

    The prices are then those at which so little was left, not those after the last few pivots. What is `first`
    enters before all else. Then all rows are swept over, then again those that have pivoted, until nothing
    changes.
    """
    size = len(basis.row)
    cost = np.empty(len(columns.begin) - 1)
    direction, change = np.empty(size), np.empty(size)
    for i in range(len(first.row)):
        row, pick = first.row[i], first.pick[i]
        if row == SLACK or pick == basis.key[row] or _holds(basis.row, row):
            continue
        if _pivot(rows, columns, basis, row, pick, direction, change) < 0:
            return False, 0
    again = np.empty(len(rows.order), np.int64)
    is_again = np.zeros(len(basis.key), np.bool_)
    count, pivots, since = 0, 0, 0
    swept = np.empty(size)
    while True:
        for sweep in range(_MINOR):
            moved, left = 0, 0.0
            for u in range(size):
                if basis.prices[u] < -tolerance:
                    if _pivot(rows, columns, basis, SLACK, u, direction, change) < 0:
                        return False, pivots
                    moved += 1
            for u in range(size):
                swept[u] = basis.prices[u]
            costs(columns, swept, cost)
            total = len(rows.order) if sweep == 0 else count
            for i in range(total):
                row = rows.order[i] if sweep == 0 else again[i]
                pick, more = _wanted(rows, columns, basis, row, cost, tolerance)
                left += more
                if pick == basis.key[row]:
                    continue
                done = _pivot(rows, columns, basis, row, pick, direction, change)
                if done < 0:
                    return False, pivots
                if not is_again[row]:
                    again[count], is_again[row] = row, True
                    count += 1
                moved += 1
                since = 0 if done == 2 else since + done
                if since >= _REFRESH:
                    since = 0
                    if not _refresh(rows, columns, basis):
                        return False, pivots
            pivots += moved
            if pivots > most_pivots:
                return False, pivots
            if sweep == 0 and (moved == 0 or left <= enough):
                for u in range(size):
                    basis.prices[u] = swept[u]
                return True, pivots
            if moved == 0 or left <= enough:
                break


def split_rows(basis: Basis) -> Ints:
    """Return the fractional rows in rising order."""
    return np.unique(basis.row[basis.row != SLACK])
