"""The options of rows as flat arrays, and each row's best option at given prices; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import constant, kernel, step

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NOTHING, STAY = constant(-1), constant(-2)  # picks that are not in a row's list of options
WORST = -1e300


class Rows(NamedTuple):
    """The rows of a program. `order` lists those that count. All other arrays are indexed by row or by option.

    Row j has the options begin[j, g] .. end[j, g] of each group g. Option k is of column[k] and gains
    offset[j] + scale[j] * value[k]. The row may also stay in stay_column[j] (-1: none) and gain stay_gain[j].
    Unless required[j], it may pick nothing and gain 0. A pick is the place of an option, or `STAY`, `NOTHING`.

    rising: (groups,) whether each option takes no less of any limit than the one before.
    concave: (groups,) whether each step also gains less per unit of size.
    top: (rows, groups) the option that `peak` found last, counted from the first. It is a hint that `peak` writes.
    """

    order: Ints
    begin: NDArray[np.int32]
    end: NDArray[np.int32]
    concave: Flags
    rising: Flags
    column: NDArray[np.int32]
    value: Floats
    offset: Floats
    scale: Floats
    stay_column: Ints
    stay_gain: Floats
    required: Flags
    top: NDArray[np.int32]


class Columns(NamedTuple):
    """What each column takes: in its entries begin[c] .. begin[c + 1], `amount` of `limit`.

    barred: (columns,) whether it fits nowhere.
    group: (columns,) the group of its options.
    """

    begin: Ints
    limit: Ints
    amount: Floats
    barred: Flags
    group: Ints


@step
def column_of(rows: Rows, row: int, pick: int) -> int:
    """Return the column of a row's pick, -1 for nothing."""
    if pick >= 0:
        return int(rows.column[pick])
    return int(rows.stay_column[row]) if pick == STAY else -1


@step
def gain_of(rows: Rows, row: int, pick: int) -> float:
    """Return what a row gains by a pick; WORST for nothing if it is required."""
    if pick >= 0:
        return rows.offset[row] + rows.scale[row] * rows.value[pick]
    if pick == STAY:
        return rows.stay_gain[row]
    return WORST if rows.required[row] else 0.0


@step
def costs(columns: Columns, prices: Floats, out: Floats) -> None:
    """Write what each column costs at the prices of the limits; infinity if it is barred."""
    for c in range(len(out)):
        out[c] = np.inf if columns.barred[c] else 0.0
        for e in range(columns.begin[c], columns.begin[c + 1]):
            out[c] += columns.amount[e] * prices[columns.limit[e]]


@step
def rises(rows: Rows, row: int, option: int, cost: Floats) -> bool:
    """Return whether the next option is worth more."""
    more = rows.scale[row] * (rows.value[option + 1] - rows.value[option])
    return bool(more > cost[rows.column[option + 1]] - cost[rows.column[option]])


@step
def peak(rows: Rows, row: int, group: int, begin: int, cost: Floats) -> int:
    """Return the most valuable of a group's concave options from `begin` on: the first before a step down.

    It is searched for where it was last, as prices move little between looks, and else by halving.
    """
    first, last = rows.begin[row, group], rows.end[row, group] - 1
    at = min(max(first + rows.top[row, group], begin), last)
    if at < last and rises(rows, row, at, cost):
        at += 1
    elif at > begin and not rises(rows, row, at - 1, cost):
        at, last = begin, at - 1
    else:
        return at
    while at < last:
        middle = (at + last) >> 1
        if rises(rows, row, middle, cost):
            at = middle + 1
        else:
            last = middle
    rows.top[row, group] = at - first
    return at


@step
def best_of(rows: Rows, row: int, cost: Floats) -> tuple[float, int]:
    """Return (worth, pick) of what gains most beyond its cost; on ties staying, then nothing, then the first."""
    best, pick = (WORST if rows.required[row] else 0.0), NOTHING
    stay = rows.stay_column[row]
    if stay >= 0 and rows.stay_gain[row] - cost[stay] >= best:
        best, pick = rows.stay_gain[row] - cost[stay], STAY
    scale, offset = rows.scale[row], rows.offset[row]
    for g in range(len(rows.concave)):
        begin, end = rows.begin[row, g], rows.end[row, g]
        if begin == end:
            continue
        if rows.concave[g]:
            begin = peak(rows, row, g, begin, cost)
            end = begin + 1
        for k in range(begin, end):
            worth = offset + scale * rows.value[k] - cost[rows.column[k]]
            if worth > best:
                best, pick = worth, k
    return best, pick


@kernel
def dual_value(rows: Rows, columns: Columns, capacity: Floats, prices: Floats) -> tuple[float, float]:
    """Return the Lagrangian bound at prices >= 0, and the sum of the rows' absolute worths.

    The bound is prices @ capacity, plus what every row gains at its best beyond the prices. No plan exceeds it.
    """
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    total, absolute = 0.0, 0.0
    for i in range(len(capacity)):
        total += prices[i] * capacity[i]
    for row in rows.order:
        best = best_of(rows, row, cost)[0]
        total += best
        absolute += abs(best) if best > WORST else 0.0
    return total, absolute


@kernel
def columns_of(rows: Rows, picks: Ints) -> Ints:
    """Return the columns that the rows of the order pick, -1 for none. `picks` are by row."""
    columns = np.empty(len(rows.order), np.int64)
    for i in range(len(columns)):
        columns[i] = column_of(rows, rows.order[i], picks[rows.order[i]])
    return columns


@kernel
def objective(rows: Rows, picks: Ints) -> float:
    """Return what the rows of the order gain by their picks together."""
    total = 0.0
    for row in rows.order:
        total += gain_of(rows, row, picks[row])
    return total


def count_options(rows: Rows) -> int:
    """Return how many options the rows have together. The options of a row lie together, group after group."""
    if not len(rows.concave):
        return 0
    return int((rows.end[rows.order, -1] - rows.begin[rows.order, 0]).sum())
