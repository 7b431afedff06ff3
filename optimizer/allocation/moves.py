"""What single rows may have instead of what is best for them: changes of limit are moves, of others tables know.

A row that loses little in another limit is a *mover*, and each of its changes a move. One that takes more or less
of its own limit only is a *resident* (`residents.py`). All others have their best.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiled import kernel
from .alternatives import MOST_OPTIONS, NONE, alternatives, limit_of
from .rows import Columns, Flags, Floats, Ints, Rows, by_rising, column_of

_MOST_RESIDENTS = 48  # of a limit


class Parted(NamedTuple):
    """Places in the order: movers; residents, those of limit u from begin[u] on; best: (rows,) the best picks."""

    movers: Ints
    residents: Ints
    begin: Ints
    best: Ints


class Moves(NamedTuple):
    """Moves, alike ones one behind another, those of kind k from begin[k] on and cheapest first.

    place: of the row in the order; pick, and what is lost by it; from entry[m] to entry[m + 1]: so much of `limit`
    it leaves that the best pick takes, less than 0 where it takes more.
    """

    begin: Ints
    place: Ints
    pick: Ints
    loss: Floats
    entry: Ints
    limit: Ints
    amount: Floats


@kernel
def _whole(columns: Columns, limits: int) -> Flags:
    """Limits of which only whole amounts are taken."""
    whole = np.ones(limits, np.bool_)
    for e in range(len(columns.amount)):
        whole[columns.limit[e]] &= columns.amount[e] == np.floor(columns.amount[e])
    return whole


@kernel
def part(rows: Rows, columns: Columns, limits: int, cost: Floats, most_loss: float, most_movers: int) -> Parted:
    """Movers are those that lose least by another limit, residents those that lose least by more or less of one.

    Only picks that lose at most `most_loss` against a row's best are looked at.
    """
    count = len(rows.order)
    option, loss = np.empty(MOST_OPTIONS, np.int64), np.empty(MOST_OPTIONS)
    best, home = np.empty(count, np.int64), np.full(count, NONE)
    inside, across, ratio = np.full(count, np.inf), np.full(count, np.inf), np.full(count, np.inf)
    whole = _whole(columns, limits)
    for i in range(count):
        row = rows.order[i]
        n, _ = alternatives(rows, row, cost, most_loss, option, loss)
        best[i] = option[0]
        own = column_of(rows, row, option[0])
        limit = limit_of(columns, own)
        for k in range(n):
            if limit == NONE:
                limit = limit_of(columns, column_of(rows, row, option[k]))
        home[i] = limit
        for k in range(1, n):
            column = column_of(rows, row, option[k])
            if limit >= 0 and limit_of(columns, column) in (limit, NONE) and whole[limit]:
                inside[i] = min(inside[i], loss[k])
                continue
            across[i] = min(across[i], loss[k])
            worth = (cost[column] if column >= 0 else 0.0) + (cost[own] if own >= 0 else 0.0)
            if worth > 0.0:
                ratio[i] = min(ratio[i], loss[k] / worth)

    movers, moves = np.empty(most_movers, np.int64), np.zeros(count, np.bool_)
    n = 0
    # In turn, what loses least and what loses least for what it moves: small changes and large ones are needed.
    by_loss, by_ratio = by_rising(across), by_rising(ratio)
    for turn in range(2 * count):
        i = by_loss[turn // 2] if turn % 2 == 0 else by_ratio[turn // 2]
        if n < most_movers and across[i] < np.inf and not moves[i]:
            movers[n], moves[i] = i, True
            n += 1
    stay, begin = np.empty((limits, _MOST_RESIDENTS), np.int64), np.zeros(limits + 1, np.int64)
    for i in by_rising(inside):
        u = home[i]
        if inside[i] < np.inf and not moves[i] and begin[u + 1] < _MOST_RESIDENTS:
            stay[u, begin[u + 1]] = i
            begin[u + 1] += 1
    for u in range(limits):
        begin[u + 1] += begin[u]
    residents = np.empty(begin[limits], np.int64)
    for u in range(limits):
        for r in range(begin[u], begin[u + 1]):
            residents[r] = stay[u, r - begin[u]]
    return Parted(movers[:n], residents, begin, best)


@kernel
def list_moves(rows: Rows, columns: Columns, limits: int, cost: Floats, most_loss: float, parted: Parted) -> Moves:
    most = len(parted.movers) * MOST_OPTIONS
    place, pick, loss, kind = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most), np.empty(most)
    option, its_loss = np.empty(MOST_OPTIONS, np.int64), np.empty(MOST_OPTIONS)
    count = 0
    for i in parted.movers:
        row = rows.order[i]
        n, _ = alternatives(rows, row, cost, most_loss, option, its_loss)
        own = column_of(rows, row, option[0])
        for k in range(1, n):
            place[count], pick[count], loss[count] = i, option[k], its_loss[k]
            kind[count] = (own + 1) * len(columns.begin) + column_of(rows, row, option[k]) + 1
            count += 1
    # Alike ones together, and of these, which are few, the cheapest first.
    order = by_rising(kind[:count])
    for k in range(count):
        m, at = order[k], k
        while at > 0 and kind[order[at - 1]] == kind[m] and loss[order[at - 1]] > loss[m]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = m

    begin, kinds = np.empty(count + 1, np.int64), 0
    entry, entries = np.zeros(count + 1, np.int64), 0
    limit, amount = np.empty(count * 2 * limits, np.int64), np.empty(count * 2 * limits)
    more = np.zeros(limits)
    moved = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    for k in range(count):
        m = order[k]
        if k == 0 or kind[m] != kind[order[k - 1]]:
            begin[kinds] = k
            kinds += 1
        moved[0][k], moved[1][k], moved[2][k] = place[m], pick[m], loss[m]
        row = rows.order[place[m]]
        old, new = column_of(rows, row, parted.best[place[m]]), column_of(rows, row, pick[m])
        if old >= 0:
            for e in range(columns.begin[old], columns.begin[old + 1]):
                more[columns.limit[e]] += columns.amount[e]
        if new >= 0:
            for e in range(columns.begin[new], columns.begin[new + 1]):
                more[columns.limit[e]] -= columns.amount[e]
        for u in range(limits):
            if more[u] != 0.0:
                limit[entries], amount[entries] = u, more[u]
                entries += 1
                more[u] = 0.0
        entry[k + 1] = entries
    begin[kinds] = count
    return Moves(begin[: kinds + 1], moved[0], moved[1], moved[2], entry, limit[:entries], amount[:entries])
