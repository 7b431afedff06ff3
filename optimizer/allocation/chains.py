"""Chains of changes that lead from what is best for every row to a plan; compiled.

At the prices, what is best for all takes too much of some limits and leaves some of others. A row that changes its
limit makes room in one and fills another, which others must fill or give up, and so on. What rows that keep their
limit make of that a table says at once (`residents.py`): of every chain it is known how far it falls short of the
bound, and the best few are made longer, by one change of another row at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel, step
from .digests import digest_of, factors, place_of
from .moves import Moves, list_moves, part
from .plan import move
from .residents import Residents, give_out, lost, settle_in
from .rows import NOTHING, Columns, Floats, Ints, Rows, column_of, costs, smallest

_SLACK = 1e-9
_MADE = 8  # times as many chains as are kept are made before the others are dropped


class _Chains(NamedTuple):
    """spare: (chains, limits) left where residents take their cheapest; loss: by moves; rank: all that is lost.

    lacking: limits of which too much is taken; digest: of `spare`; moves: (chains, longest).
    """

    spare: Floats
    loss: Floats
    rank: Floats
    lacking: Ints
    digest: NDArray[np.uint64]
    moves: Ints


@kernel
def _chains(count: int, limits: int, longest: int) -> _Chains:
    return _Chains(
        np.empty((count, limits)),
        np.empty(count),
        np.empty(count),
        np.empty(count, np.int64),
        np.zeros(count, np.uint64),
        np.empty((count, longest), np.int64),
    )


@step
def _rank(residents: Residents, u: int, spare: float, price: float) -> float:
    """What is lost in a limit; where more of it is taken than there is, what that is worth too."""
    low = float(residents.low[u])
    return lost(residents, u, max(spare, low), price) + max(low - spare, 0.0) * price


@step
def _first_unused(moves: Moves, kind: int, chain: Ints, length: int) -> int:
    """The cheapest move of a kind whose row is in none of the chain's; -1: there is none."""
    for m in range(moves.begin[kind], moves.begin[kind + 1]):
        used = False
        for k in range(length):
            used = used or moves.place[chain[k]] == moves.place[m]
        if not used:
            return m
    return -1


class _Longer(NamedTuple):
    """Chains with one move more: of which, by which move, what they will be; in the last place the best plan."""

    parent: Ints
    move: Ints
    rank: Floats
    lacking: Ints
    digest: NDArray[np.uint64]


@kernel
def _longer(count: int) -> _Longer:
    return _Longer(
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count),
        np.empty(count, np.int64),
        np.empty(count, np.uint64),
    )


@step
def _look_up(table: Ints, longer: _Longer, digest: np.uint64) -> np.uint64:
    """Where in the table the chain of that digest is, or would be."""
    last = np.uint64(len(table) - 1)
    at = place_of(digest, np.uint64(len(table)))
    while table[at] >= 0 and longer.digest[table[at]] != digest:
        at = (at + np.uint64(1)) & last
    return at


@kernel
def _keep_best(longer: _Longer, made: int, width: int, table: Ints) -> tuple[int, float]:
    """Keep the `width` best, in their order, and the table of them; (how many there are, rank of the last)."""
    bar = np.inf if made <= width else smallest(longer.rank, made, width)
    at_bar = width
    for c in range(made):
        at_bar -= longer.rank[c] < bar
    n = 0
    table[:] = -1
    for c in range(made):
        if longer.rank[c] > bar or (longer.rank[c] == bar and at_bar == 0):
            continue
        at_bar -= longer.rank[c] == bar
        longer.parent[n], longer.move[n], longer.rank[n] = longer.parent[c], longer.move[c], longer.rank[c]
        longer.lacking[n], longer.digest[n] = longer.lacking[c], longer.digest[c]
        table[_look_up(table, longer, longer.digest[n])] = n
        n += 1
    return n, bar


@kernel
def _lengthen(
    moves: Moves,
    residents: Residents,
    prices: Floats,
    budget: float,
    chains: _Chains,
    count: int,
    length: int,
    width: int,
    longer: _Longer,
    table: Ints,
    factor: NDArray[np.uint64],
) -> int:
    """The `width` best chains with one move more, of those that leave the same only one; returns how many.

    The best plan among all of them is written behind them, if its rank is less than what is there.
    """
    limits, plan = len(prices), len(longer.rank) - 1
    now = np.empty(limits)
    made, bar = 0, np.inf
    table[:] = -1
    for p in range(count):
        for u in range(limits):
            now[u] = _rank(residents, u, chains.spare[p, u], prices[u])
        for kind in range(len(moves.begin) - 1):
            m = _first_unused(moves, kind, chains.moves[p], length)
            if m < 0 or chains.loss[p] + moves.loss[m] > budget:
                continue
            rank, lacking, digest = chains.rank[p] + moves.loss[m], chains.lacking[p], chains.digest[p]
            for e in range(moves.entry[m], moves.entry[m + 1]):
                u, amount = moves.limit[e], moves.amount[e]
                spare, low = chains.spare[p, u], residents.low[u] - _SLACK
                rank += _rank(residents, u, spare + amount, prices[u]) - now[u]
                lacking += (spare + amount < low) - (spare < low)
                digest += digest_of(amount, factor[u])
            if lacking == 0 and rank < longer.rank[plan]:
                longer.parent[plan], longer.move[plan], longer.rank[plan] = p, m, rank
                longer.lacking[plan], longer.digest[plan] = 0, digest
            if rank >= bar:
                continue
            at = _look_up(table, longer, digest)
            c = table[at]
            if c < 0:
                if made == plan:
                    made, bar = _keep_best(longer, made, width, table)
                    at = _look_up(table, longer, digest)
                    if rank >= bar:
                        continue
                c = table[at] = made
                made += 1
            elif longer.rank[c] <= rank:
                continue
            longer.parent[c], longer.move[c], longer.rank[c] = p, m, rank
            longer.lacking[c], longer.digest[c] = lacking, digest
    made, _ = _keep_best(longer, made, width, table)
    return made


@step
def _follow(moves: Moves, chains: _Chains, length: int, longer: _Longer, c: int, out: _Chains, n: int) -> None:
    """Write the longer chain `c` as number `n` of `out`."""
    p, m = longer.parent[c], longer.move[c]
    for u in range(out.spare.shape[1]):
        out.spare[n, u] = chains.spare[p, u]
    for e in range(moves.entry[m], moves.entry[m + 1]):
        out.spare[n, moves.limit[e]] += moves.amount[e]
    for k in range(length):
        out.moves[n, k] = chains.moves[p, k]
    out.moves[n, length] = m
    out.loss[n], out.rank[n] = chains.loss[p] + moves.loss[m], longer.rank[c]
    out.lacking[n], out.digest[n] = longer.lacking[c], longer.digest[c]


@kernel
def find_chain(
    rows: Rows,
    columns: Columns,
    capacity: Floats,
    prices: Floats,
    picks: Ints,
    budget: float,
    enough: float,
    most_loss: float,
    most_movers: int,
    width: int,
    longest: int,
) -> float:
    """Replace `picks` by the best plan found that falls short of the bound by less than `budget`, if one is found.

    One that falls short by no more than `enough` is taken as it is. most_loss: of a row, by what it picks; width:
    chains of each length that are made longer. Returns the plan's shortfall, inf: there is none.
    """
    limits, count = len(capacity), len(rows.order)
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    parted = part(rows, columns, limits, cost, most_loss, most_movers)
    room = capacity.copy()
    residents = settle_in(rows, columns, cost, most_loss, prices, parted.residents, parted.begin, room)
    moves = list_moves(rows, columns, limits, cost, most_loss, parted)
    stays = np.zeros(count, np.bool_)
    for i in parted.residents:
        stays[i] = True
    for i in range(count):
        if not stays[i]:
            move(columns, NOTHING, column_of(rows, rows.order[i], parted.best[i]), room)

    chains, spare, best = (
        _chains(width, limits, longest),
        _chains(width, limits, longest),
        _chains(1, limits, longest),
    )
    chains.loss[0], chains.rank[0], chains.lacking[0] = 0.0, 0.0, 0
    for u in range(limits):
        chains.spare[0, u] = best.spare[0, u] = room[u]
        chains.rank[0] += _rank(residents, u, chains.spare[0, u], prices[u])
        chains.lacking[0] += chains.spare[0, u] < residents.low[u] - _SLACK
    best.rank[0] = budget
    best_length = -1
    if chains.lacking[0] == 0 and chains.rank[0] < budget:
        best.rank[0], best_length = chains.rank[0], 0

    plan = _MADE * width
    longer, factor = _longer(plan + 1), factors(limits)
    longer.rank[plan] = best.rank[0]
    size = 1
    while size < 2 * plan:
        size *= 2
    table = np.empty(size, np.int64)
    n = 1
    for length in range(longest):
        if best.rank[0] <= enough or n == 0:
            break
        n = _lengthen(moves, residents, prices, budget, chains, n, length, width, longer, table, factor)
        if longer.rank[plan] < best.rank[0]:
            _follow(moves, chains, length, longer, plan, best, 0)
            best_length = length + 1
        for c in range(n):
            _follow(moves, chains, length, longer, c, spare, c)
        chains, spare = spare, chains
    if best_length < 0:
        return np.inf
    for i in range(count):
        picks[rows.order[i]] = parted.best[i]
    for k in range(best_length):
        m = best.moves[0, k]
        picks[rows.order[moves.place[m]]] = moves.pick[m]
    give_out(residents, rows, best.spare[0], picks)
    return best.rank[0]
