"""Prices of rows: what no plan can exceed if every limit is packed with whole picks; compiled.

Prices of limits let limits be filled with fractions of picks. Prices of rows do not: where a row must be paid for
by each limit that takes it, the limits have nothing to do with each other any more, and each is packed as is best
for it alone, a knapsack that a table over its capacity solves exactly. What rows cost and packings bring beyond
that bounds all plans (Lagrangian relaxation of the rows' constraints: Fisher, Jaikumar and Van Wassenhove, 1986),
at the best prices no worse than prices of limits do (Geoffrion, 1974), and much better where few rows take much.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiled import kernel, step
from .opened import Open
from .rows import Floats, Ints

_WORSE = 8  # steps in a row that gain nothing, before they become shorter
_SHORTER, _SHORTEST = 0.7, 3e-4
_KEPT = 0.8  # of the direction of the step before
_ENOUGH = 1e-6  # of the bound, for a step to count as one that gains
_LANES = 8


class Tables(NamedTuple):
    """What the best packing of a limit brings in so many units of it, of the rows from one on.

    best: (tables, units + 1); at: (rows + 1, limits) which table that is, mostly the same as that of the next row;
    row: (tables,) whose options make it another than the table `next` (tables,), -1: there is none.
    """

    best: Floats
    at: Ints
    row: Ints
    next: Ints


@kernel
def most_tables(opened: Open) -> int:
    """Each row adds one, at most, of each limit that it has options of."""
    count, last = len(opened.capacity), np.full(len(opened.capacity), -1, np.int64)
    for i in range(len(opened.row)):
        for k in range(opened.begin[i], opened.begin[i + 1]):
            count += last[opened.limit[k]] != i
            last[opened.limit[k]] = i
    return count


def tables_for(opened: Open) -> Tables:
    """Room for them."""
    tables, units = most_tables(opened), int(opened.capacity.max()) + 1
    at = np.empty((len(opened.row) + 1, len(opened.capacity)), np.int64)
    return Tables(np.empty((tables, units)), at, np.empty(tables, np.int64), np.empty(tables, np.int64))


# Both take places of tables instead of views, each of which costs as much as some fifty units, and are two as
# nothing that is read may be written as well for several units to be joined at once. Nor is `max` one instruction.


@step
def _begin(best: Floats, table: int, before: int, size: int, units: int, more: float) -> None:
    """A table with a pick of this size that gains `more`, or without it, after the table before."""
    for c in range(min(size, units)):
        best[table, c] = best[before, c]
    for c in range(units - size):
        joined, kept = best[before, c] + more, best[before, size + c]
        best[table, size + c] = joined if joined > kept else kept


@step
def _join(best: Floats, table: int, before: int, size: int, units: int, more: float) -> None:
    """The same with one more such pick."""
    for c in range(units - size):
        joined, kept = best[before, c] + more, best[table, size + c]
        best[table, size + c] = joined if joined > kept else kept


@kernel
def pack(opened: Open, price: Floats, tables: Tables, packed: Ints) -> float:
    """The bound at these prices of rows; writes the tables, and in how many limits' packings each row is."""
    rows, limits = len(opened.row), len(opened.capacity)
    best, at, row, after = tables
    total, count = 0.0, limits
    for u in range(limits):
        best[u] = 0.0
        at[rows, u], after[u] = u, -1
    for i in range(rows - 1, -1, -1):
        total += price[i]
        packed[i] = 0
        for u in range(limits):
            at[i, u] = at[i + 1, u]
        for k in range(opened.begin[i], opened.begin[i + 1]):
            u, size, more = opened.limit[k], opened.size[k], opened.gain[k] - price[i]
            if more <= 0.0:  # it packs no better than what takes less
                continue
            before, units = at[i + 1, u], opened.capacity[u] + 1
            if at[i, u] == before:
                at[i, u], row[count], after[count] = count, i, before
                _begin(best, count, before, size, units, more)
                count += 1
            else:
                _join(best, at[i, u], before, size, units, more)
    for u in range(limits):
        left, table = opened.capacity[u], at[0, u]
        total += best[table, left]
        while after[table] >= 0:
            i, before = row[table], after[table]
            if best[table, left] > best[before, left]:
                packed[i] += 1
                for k in range(opened.begin[i], opened.begin[i + 1]):
                    size, more = opened.size[k], opened.gain[k] - price[i]
                    fits = opened.limit[k] == u and size <= left
                    if fits and best[before, left - size] + more == best[table, left]:
                        left -= size
                        break
            table = before
    return total


@kernel
def improve(
    opened: Open, price: Floats, tables: Tables, value: float, enough: float, length: float, steps: int
) -> tuple[float, float]:
    """Better prices of rows, written to `price`; (bound at them, length of the next step).

    By subgradients: rows that are packed several times become dearer, others cheaper, by steps of `length` times
    Polyak's (1969) for a plan's `value`, shorter ones where they gain nothing; until the bound is no more than
    `enough`. A length of 0: shorter ones are of no use.
    """
    rows = len(opened.row)
    packed, now, towards = np.empty(rows, np.int64), price.copy(), np.zeros(rows)
    best, worse = np.inf, 0
    for _ in range(steps):
        bound = pack(opened, now, tables, packed)
        worse = 0 if bound < best - _ENOUGH * abs(bound) else worse + 1
        if bound < best:
            best = bound
            price[:] = now
        if best <= enough:
            break
        if worse >= _WORSE:
            length, worse = length * _SHORTER, 0
            if length < _SHORTEST:
                return best, 0.0
            now[:] = price
            towards[:] = 0.0
            continue
        norm = 0.0
        for i in range(rows):
            towards[i] = _KEPT * towards[i] + (1.0 - _KEPT) * (1 - packed[i])
            norm += towards[i] * towards[i]
        if norm == 0.0:
            return best, 0.0
        step = length * (bound - value) / norm
        for i in range(rows):
            now[i] -= step * towards[i]
            if not opened.must[i]:
                now[i] = max(now[i], 0.0)
    return best, length


@step
def _most(before: Floats, row: int, later: Floats, limit: int, size: int, units: int, lane: Floats) -> float:
    """The greatest sum of before[row, c] and later[limit, size + c]; in lanes, as comparisons keep their order."""
    lane[:] = -np.inf
    count, most = units - size, -np.inf
    for c in range(0, count - _LANES + 1, _LANES):
        for i in range(_LANES):
            both = before[row, c + i] + later[limit, size + c + i]
            lane[i] = both if both > lane[i] else lane[i]
    for c in range(count - count % _LANES, count):
        most = max(most, before[row, c] + later[limit, size + c])
    for i in range(_LANES):
        most = max(most, lane[i])
    return most


@kernel
def sweep(opened: Open, price: Floats, tables: Tables) -> tuple[float, Floats, Floats]:
    """Better prices of rows; (bound at them, (options,) what a plan with each is worth at most, (rows,) without).

    One by one the prices come to where the bound is least, which is from what the row would add to the limit that
    gains most by it down to what it would add to the next: halfway, whatever others come to (coordinate descent).
    What is said of options and rows holds at any prices.
    tables: as `pack` makes them of the prices before.
    """
    rows, limits, most_units = len(opened.row), len(opened.capacity), tables.best.shape[1]
    with_option, without_row = np.empty(len(opened.pick)), np.empty(rows)
    before, later = np.zeros((2 * limits, most_units)), np.empty((limits, most_units))
    at, spare = np.arange(limits), np.arange(limits, 2 * limits)  # of the rows so far, in `before`; what is free
    asked = np.full(limits, -1, np.int64)  # the last row with options of each limit
    best, more_of, whole, lane, total = np.empty(limits), np.empty(limits), np.empty(limits), np.empty(_LANES), 0.0
    for i in range(rows):
        total += price[i]
    for u in range(limits):
        whole[u] = tables.best[tables.at[0, u], opened.capacity[u]]
        total += whole[u]
    for i in range(rows):
        others = total - price[i]
        for k in range(opened.begin[i], opened.begin[i + 1]):
            u = opened.limit[k]
            if asked[u] == i:
                continue
            asked[u], rest, most, more_of[u] = i, tables.at[i + 1, u], opened.capacity[u], -np.inf
            for c in range(most + 1):
                later[u, c] = tables.best[rest, most - c]
            best[u] = whole[u]
            if tables.at[i, u] != rest:  # else it is packed as well without the row
                best[u] = _most(before, at[u], later, u, 0, most + 1, lane)
                others += best[u] - whole[u]
        without_row[i] = others
        for k in range(opened.begin[i], opened.begin[i + 1]):
            u, size, units = opened.limit[k], opened.size[k], opened.capacity[opened.limit[k]] + 1
            with_option[k] = -np.inf
            if size < units:
                gained = _most(before, at[u], later, u, size, units, lane) - best[u] + opened.gain[k]
                with_option[k] = others + gained
                more_of[u] = max(more_of[u], gained)
        first, second = -np.inf, -np.inf
        for u in range(limits):
            if asked[u] == i:
                first, second = max(first, more_of[u]), max(second, min(first, more_of[u]))
        if not opened.must[i]:
            first, second = max(first, 0.0), max(second, 0.0)
        if first > -np.inf:
            price[i] = (first + second) / 2 if second > -np.inf else first
        total = others + price[i]
        for u in range(limits):
            if asked[u] == i:
                whole[u] = best[u] + max(more_of[u] - price[i], 0.0)
                total += max(more_of[u] - price[i], 0.0)
        for k in range(opened.begin[i], opened.begin[i + 1]):
            u, size, more = opened.limit[k], opened.size[k], opened.gain[k] - price[i]
            units = opened.capacity[u] + 1
            if more <= 0.0:
                continue
            if asked[u] == i:
                asked[u] = -1
                _begin(before, spare[u], at[u], size, units, more)
                at[u], spare[u] = spare[u], at[u]
            else:
                _join(before, at[u], spare[u], size, units, more)
    return total, with_option, without_row
