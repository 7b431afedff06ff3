"""What rows of a choice program may pick, as flat arrays, and what is best at given prices; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import constant, kernel, prefetch, step

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NOTHING, STAY = constant(-1), constant(-2)  # picks of a row that are not in its list of options
UNKNOWN_PICK = constant(-3)
WORST = -1e300
_RUN = 8  # entries
_ROWS_AHEAD = 4  # as long as their work takes, about, one waits for memory that no cache has


class Rows(NamedTuple):
    """`order` lists the rows there are, first come first; all else is indexed by row or by option.

    Row j has the options of the pools `column` and `value`, each gaining offset[j] + scale[j] * value: those of
    group g at begin[j, g] .. end[j, g], where rising[g] each taking no less of any limit than the one before, and
    where concave[g] with every step gaining less per unit as well; one more, stay_column[j] gaining stay_gain[j],
    where that column is not -1; and nothing, gaining 0, unless required[j].

    top: (rows, groups) where among a row's options of a group that is concave `peak` found most worth at last,
    counted from the first; not part of what rows are, and written by whoever asks.
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
    """What each column uses: `amount` of `limit`, entries begin[c] .. begin[c + 1]; barred: it fits nowhere.

    group: (columns,) the group that its options are in.
    """

    begin: Ints
    limit: Ints
    amount: Floats
    barred: Flags
    group: Ints


@step
def holds(array: Ints, item: int) -> bool:
    found = False
    for other in array:
        found = found or other == item
    return found


@kernel
def by_rising(keys: Floats) -> Ints:
    """Places of `keys` in rising order, equal ones as they come: a merge sort that compiles fast."""
    count = len(keys)
    order, spare = np.empty(count, np.int64), np.empty(count, np.int64)
    for i in range(count):  # runs of `_RUN` by insertion
        k = i
        while k % _RUN and keys[order[k - 1]] > keys[i]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = i
    width = _RUN
    while width < count:
        for begin in range(0, count, 2 * width):
            middle, end = min(begin + width, count), min(begin + 2 * width, count)
            i, j = begin, middle
            for k in range(begin, end):
                if j >= end or (i < middle and keys[order[i]] <= keys[order[j]]):
                    spare[k] = order[i]
                    i += 1
                else:
                    spare[k] = order[j]
                    j += 1
        order, spare = spare, order
        width *= 2
    return order


@kernel
def smallest(numbers: Floats, count: int, width: int) -> float:
    """The one of the first `count` that is in place `width` when they are sorted."""
    found = np.empty(count)
    for i in range(count):
        found[i] = numbers[i]
    low, high = 0, count - 1
    while low < high:
        middle = found[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while found[i] < middle:
                i += 1
            while found[j] > middle:
                j -= 1
            if i <= j:
                found[i], found[j] = found[j], found[i]
                i, j = i + 1, j - 1
        if width - 1 <= j:
            high = j
        elif width - 1 >= i:
            low = i
        else:
            break
    return found[width - 1]


@kernel
def some_of(rows: Rows, order: Ints) -> Rows:
    """These rows of the program alone; what `rows._replace(order=order)` is outside of kernels."""
    own = rows.begin, rows.end, rows.concave, rows.rising, rows.column, rows.value
    of_rows = rows.offset, rows.scale, rows.stay_column, rows.stay_gain, rows.required, rows.top
    return Rows(order, *own, *of_rows)


@step
def column_of(rows: Rows, row: int, pick: int) -> int:
    """Column of a row's pick, -1 for nothing."""
    if pick >= 0:
        return int(rows.column[pick])
    return int(rows.stay_column[row]) if pick == STAY else -1


@kernel
def columns_of(rows: Rows, picks: Ints) -> Ints:
    """(rows of the order,) columns of the picks: (rows,), -1 for nothing."""
    columns = np.empty(len(rows.order), np.int64)
    for i in range(len(columns)):
        columns[i] = column_of(rows, rows.order[i], picks[rows.order[i]])
    return columns


@kernel
def count_options(rows: Rows) -> int:
    """Of all rows together; those of a row lie together, group after group."""
    count = 0
    if len(rows.concave):
        for row in rows.order:
            count += rows.end[row, len(rows.concave) - 1] - rows.begin[row, 0]
    return count


@step
def gain_of(rows: Rows, row: int, pick: int) -> float:
    if pick >= 0:
        return rows.offset[row] + rows.scale[row] * rows.value[pick]
    if pick == STAY:
        return rows.stay_gain[row]
    return WORST if rows.required[row] else 0.0


@kernel
def sampled_gain(rows: Rows, sample: int) -> float:
    """About what a row gains, or loses: the mean over some of the most that the last options of groups do."""
    stride = max(len(rows.order) // sample, 1)
    total, count = 0.0, 0
    for i in range(0, len(rows.order), stride):
        row = rows.order[i]
        most = WORST if rows.required[row] else 0.0
        if rows.stay_column[row] >= 0:
            most = max(most, rows.stay_gain[row])
        for g in range(len(rows.concave)):
            if rows.begin[row, g] < rows.end[row, g]:
                most = max(most, gain_of(rows, row, rows.end[row, g] - 1))
        total += abs(most) if most > WORST else 0.0
        count += 1
    return total / max(count, 1)


@step
def costs(columns: Columns, prices: Floats, out: Floats) -> None:
    """out: (columns,) what each column costs at the prices of the limits, inf where it is barred."""
    for c in range(len(out)):
        out[c] = np.inf if columns.barred[c] else 0.0
        for e in range(columns.begin[c], columns.begin[c + 1]):
            out[c] += columns.amount[e] * prices[columns.limit[e]]


@step
def foresee(rows: Rows, i: int) -> None:
    """Begin to read what there is of a row that comes soon after the i-th, and where that of a later one is."""
    if i + 2 * _ROWS_AHEAD < len(rows.order):
        row = rows.order[i + 2 * _ROWS_AHEAD]
        prefetch(rows.begin, row)
        prefetch(rows.begin, row + 1)
        prefetch(rows.top, row)
        prefetch(rows.offset, row)
        prefetch(rows.scale, row)
        prefetch(rows.stay_gain, row)
        prefetch(rows.stay_column, row)
    if i + _ROWS_AHEAD < len(rows.order):
        row = rows.order[i + _ROWS_AHEAD]
        for g in range(len(rows.concave)):
            at = rows.begin[row, g] + rows.top[row, g]
            prefetch(rows.value, at)
            prefetch(rows.column, at)


@step
def rises(rows: Rows, row: int, option: int, cost: Floats) -> bool:
    """Whether the next option is worth more."""
    more = rows.scale[row] * (rows.value[option + 1] - rows.value[option])
    return bool(more > cost[rows.column[option + 1]] - cost[rows.column[option]])


@step
def peak(rows: Rows, row: int, group: int, begin: int, cost: Floats) -> int:
    """Where worth is most among a group's concave options from `begin` on: the first step down.

    It is mostly where it was, as prices move little from one look to the next; else it is found by halving.
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
    """(worth, pick) of what gains most beyond its cost; among equals staying, nothing, the first option."""
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
def total_best(rows: Rows, columns: Columns) -> float:
    """What all rows gain, or lose as they are required, together if each has its best."""
    cost = np.empty(len(columns.begin) - 1)
    for c in range(len(cost)):
        cost[c] = np.inf if columns.barred[c] else 0.0
    total = 0.0
    for row in rows.order:
        best = best_of(rows, row, cost)[0]
        total += abs(best) if best > WORST else 0.0
    return total


@kernel
def dual_value(rows: Rows, columns: Columns, capacity: Floats, prices: Floats) -> float:
    """What no plan can exceed, whatever the prices of at least 0: every row at its best, and the capacity sold."""
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    total = 0.0
    for i in range(len(capacity)):
        total += prices[i] * capacity[i]
    for row in rows.order:
        total += best_of(rows, row, cost)[0]
    return total
