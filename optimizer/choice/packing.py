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

    best: (tables, units + 1); at: (rows + 1, limits) which table that is, mostly the same as that of the next row.
    """

    best: Floats
    at: Ints


def most_tables(opened: Open) -> int:
    """Each row adds one, at most, of each limit that it has options of."""
    limits = len(opened.capacity)
    return limits + len(np.unique(opened.place * limits + opened.limit))


def tables_for(opened: Open) -> Tables:
    """Room for them."""
    best = np.empty((most_tables(opened), int(opened.capacity.max()) + 1))
    return Tables(best, np.empty((len(opened.row) + 1, len(opened.capacity)), np.int64))


@step
def _join(best: Floats, before: Floats, count: int, more: float) -> None:
    """Of the first `count` what is more: the best so far, or what was before and `more`."""
    for c in range(count):
        best[c] = max(best[c], before[c] + more)


@kernel
def pack(opened: Open, price: Floats, tables: Tables, packed: Ints) -> float:
    """The bound at these prices of rows; writes the tables, and in how many limits' packings each row is."""
    rows, limits = len(opened.row), len(opened.capacity)
    best, at = tables
    total, count = 0.0, limits
    for u in range(limits):
        best[u] = 0.0
        at[rows, u] = u
    for i in range(rows - 1, -1, -1):
        total += price[i]
        packed[i] = 0
        for u in range(limits):
            at[i, u] = at[i + 1, u]
        for k in range(opened.begin[i], opened.begin[i + 1]):
            u, size, more = opened.limit[k], opened.size[k], opened.gain[k] - price[i]
            if more <= 0.0:  # it packs no better than what takes less
                continue
            before = best[at[i + 1, u]]
            if at[i, u] == at[i + 1, u]:
                at[i, u] = count
                count += 1
                for c in range(opened.capacity[u] + 1):
                    best[at[i, u], c] = before[c]
            _join(best[at[i, u], size:], before, opened.capacity[u] + 1 - size, more)
    for u in range(limits):
        left = opened.capacity[u]
        total += best[at[0, u], left]
        for i in range(rows):
            before = best[at[i + 1, u]]
            if best[at[i, u], left] > before[left]:
                packed[i] += 1
                for k in range(opened.begin[i], opened.begin[i + 1]):
                    size, more = opened.size[k], opened.gain[k] - price[i]
                    fits = opened.limit[k] == u and size <= left
                    if fits and before[left - size] + more == best[at[i, u], left]:
                        left -= size
                        break
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
def _most(before: Floats, later: Floats, count: int, lane: Floats) -> float:
    """Of the first `count` sums the greatest; in lanes, as compilers may not change the order of comparisons."""
    lane[:] = -np.inf
    for c in range(0, count - _LANES + 1, _LANES):
        for i in range(_LANES):
            lane[i] = max(lane[i], before[c + i] + later[c + i])
    most = -np.inf
    for c in range(count - count % _LANES, count):
        most = max(most, before[c] + later[c])
    for i in range(_LANES):
        most = max(most, lane[i])
    return most


@kernel
def through(opened: Open, price: Floats, tables: Tables) -> tuple[Floats, Floats]:
    """(options,) what a plan with each is worth at most, and (rows,) what one without each row is.

    tables: as `pack` makes them of the same prices.
    """
    rows, limits, units = len(opened.row), len(opened.capacity), tables.best.shape[1]
    with_option, without_row = np.empty(len(opened.pick)), np.empty(rows)
    before, after, later = np.zeros((limits, units)), np.zeros((limits, units)), np.zeros((limits, units))
    best, lane, total = np.empty(limits), np.empty(_LANES), 0.0
    for i in range(rows):
        total += price[i]
    for i in range(rows):
        others = total - price[i]
        for u in range(limits):
            rest = tables.best[tables.at[i + 1, u]]
            for c in range(opened.capacity[u] + 1):
                later[u, c] = rest[opened.capacity[u] - c]
                after[u, c] = before[u, c]
            best[u] = _most(before[u], later[u], opened.capacity[u] + 1, lane)
            others += best[u]
        without_row[i] = others
        for k in range(opened.begin[i], opened.begin[i + 1]):
            u, size, more = opened.limit[k], opened.size[k], opened.gain[k] - price[i]
            count = opened.capacity[u] + 1 - size
            if count <= 0:
                with_option[k] = -np.inf
                continue
            with_option[k] = others - best[u] + _most(before[u], later[u, size:], count, lane) + opened.gain[k]
            if more > 0.0:
                _join(after[u, size:], before[u], count, more)
        before, after = after, before
    return with_option, without_row
