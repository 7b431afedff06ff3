"""Rows that are looked at in one limit only: the least that they lose together, however much of it they get.

All options of theirs take whole amounts of that limit, so that one table for it says what they lose for every
amount more or less than their cheapest picks take, and who then picks what: a multiple-choice knapsack.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel, step
from .alternatives import MOST_OPTIONS, NONE, alternatives, amount_of, limit_of
from .rows import Columns, Floats, Ints, Rows, column_of

_STATES = 1 << 15  # of a limit's residents together
_SLACK = 1e-9


class Residents(NamedTuple):
    """The rows at `place` in the order, those of limit u at begin[u] .. begin[u + 1], and their tables.

    option, shift: (residents, options) picks, cheapest first, and how much more they take than the cheapest.
    low, high: (limits,) how much more than by their cheapest picks they may take together, less than 0 and more.
    loss, at: (limits, span) what they lose with low[u] + s more, where what they leave of it is paid for, and how
    much of it they take; taken: (residents, span) the option of each, of those before it together.
    """

    place: Ints
    begin: Ints
    option: Ints
    shift: Ints
    low: Ints
    high: Ints
    loss: Floats
    at: Ints
    taken: NDArray[np.int8]


@kernel
def settle_in(
    rows: Rows,
    columns: Columns,
    cost: Floats,
    budget: float,
    prices: Floats,
    place: Ints,
    begin: Ints,
    room: Floats,
) -> Residents:
    """Tables of the rows at `place`; what their cheapest picks take is taken from `room`: (limits,).

    Left out is what loses more than `budget`, and by many rows what is far from their cheapest picks.
    """
    limits, count = len(prices), len(place)
    shape = count, MOST_OPTIONS
    option, loss, shift = np.empty(shape, np.int64), np.empty(shape), np.empty(shape, np.int64)
    counts = np.empty(count, np.int64)
    low, high = np.zeros(limits, np.int64), np.zeros(limits, np.int64)
    widest = 1
    for u in range(limits):
        for r in range(begin[u], begin[u + 1]):
            row = rows.order[place[r]]
            found, _ = alternatives(rows, row, cost, budget, option[r], loss[r])
            n, least, most = 0, 0, 0
            for i in range(found):
                column = column_of(rows, row, option[r, i])
                its = limit_of(columns, column)
                if its != u and its != NONE:
                    continue
                option[r, n], loss[r, n] = option[r, i], loss[r, i]
                shift[r, n] = np.int64(amount_of(columns, column) + 0.5)
                n += 1
            counts[r] = n
            first = shift[r, 0]
            room[u] -= first
            for i in range(n):
                shift[r, i] -= first
                least, most = min(least, shift[r, i]), max(most, shift[r, i])
            low[u] += least
            high[u] += most
        reach = _STATES // (2 * max(begin[u + 1] - begin[u], 1))
        low[u], high[u] = max(low[u], -reach), min(high[u], reach)
        widest = max(widest, high[u] - low[u] + 1)

    table, at = np.full((limits, widest), np.inf), np.zeros((limits, widest), np.int64)
    taken = np.zeros((count, widest), np.int8)
    now, grown = np.empty(widest), np.empty(widest)
    for u in range(limits):
        span = high[u] - low[u] + 1
        begins = ends = -low[u]  # what is reached so far
        now[begins] = 0.0
        for r in range(begin[u], begin[u + 1]):
            to_begin, to_end = begins, ends
            for i in range(counts[r]):
                to_begin, to_end = min(to_begin, begins + shift[r, i]), max(to_end, ends + shift[r, i])
            to_begin, to_end = max(to_begin, 0), min(to_end, span - 1)
            for s in range(to_begin, to_end + 1):
                grown[s] = np.inf
            for i in range(counts[r]):
                by, more = shift[r, i], loss[r, i]
                for s in range(max(begins + by, 0), min(ends + by, span - 1) + 1):
                    total = now[s - by] + more
                    if total < grown[s]:
                        grown[s] = total
                        taken[r, s] = i
            now, grown = grown, now
            begins, ends = to_begin, to_end
            while now[begins] > budget and begins < ends:
                begins += 1
            while now[ends] > budget and begins < ends:
                ends -= 1
        # Less than that would cost more than the budget.
        low[u] += begins
        best, where = np.inf, begins
        for s in range(begins, span):
            best += prices[u]
            if s <= ends and now[s] <= best:
                best, where = now[s], s
            table[u, s - begins], at[u, s - begins] = best, where
    return Residents(place, begin, option, shift, low, high, table, at, taken)


@step
def lost(residents: Residents, limit: int, spare: float, price: float) -> float:
    """By residents and by what is not sold, if their cheapest picks leave so much of a limit; inf: not enough."""
    low, high = residents.low[limit], residents.high[limit]
    if spare < low - _SLACK:
        return np.inf
    more = np.int64(np.floor(min(spare + _SLACK, float(high))))
    return residents.loss[limit, more - low] + max(spare - more, 0.0) * price


@step
def give_out(residents: Residents, rows: Rows, spare: Floats, picks: Ints) -> None:
    """Write the residents' picks if so much more is left to them than their cheapest picks take: (limits,)."""
    for u in range(len(spare)):
        low, high = residents.low[u], residents.high[u]
        more = np.int64(np.floor(min(spare[u] + _SLACK, float(high))))
        s = residents.at[u, more - low]
        for r in range(residents.begin[u + 1] - 1, residents.begin[u] - 1, -1):
            i = residents.taken[r, s]
            picks[rows.order[residents.place[r]]] = residents.option[r, i]
            s -= residents.shift[r, i]
