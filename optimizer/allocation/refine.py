"""The best combination of picks that cost little at the prices; compiled.

At any prices what a plan falls short of the bound is made of two things that are never negative: what each row
loses by its pick, against its best, and what the capacity left over would have sold for. A better plan than the
one at hand has less of both together; so only picks that lose less than that can be in it, and combinations of
them that take the same of every limit differ only in what they lose. That is a shortest path over rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import constant, kernel, step
from .alternatives import MOST_OPTIONS, alternatives
from .digests import digest_of, factors, place_of
from .plan import move
from .rows import NOTHING, Columns, Floats, Ints, Rows, by_rising, column_of, costs, smallest

_SLACK = 1e-9
_FIRST = constant(1)  # labels, before any row
_OFF = 0.5  # weight of what is likely to be over or left, in the choice of combinations to keep


@kernel
def _undecided(rows: Rows, cost: Floats, budget: float, base: Ints) -> Ints:
    """Places in `order` of the rows that may pick several things, dearest first; `base`: what is best for each."""
    count = len(rows.order)
    option, loss = np.empty(2, np.int64), np.empty(2)
    found, worth, n = np.empty(count, np.int64), np.zeros(count), 0
    for i in range(count):
        row = rows.order[i]
        options, _ = alternatives(rows, row, cost, budget, option, loss)
        base[i] = option[0]
        if options > 1:
            for k in range(2):
                column = column_of(rows, row, option[k])
                if column >= 0:
                    worth[n] = min(worth[n], -cost[column])  # less than nothing: the dearest come first
            found[n] = i
            n += 1
    order = by_rising(worth[:n])
    for m in range(n):
        order[m] = found[order[m]]
    return order


class _Opened(NamedTuple):
    """What the rows that are searched may pick, by place in the search and cheapest first.

    option, loss, column: (rows, options), of which `counts` count. least, greatest, likely: (rows + 1, limits)
    what is taken from a row on if each takes the least of a limit, the most, and what is best for it.
    """

    option: Ints
    loss: Floats
    column: Ints
    counts: Ints
    least: Floats
    greatest: Floats
    likely: Floats


class _Labels(NamedTuple):
    """Combinations of picks of the rows so far that take different things: the cheapest of each kind.

    used: (labels, limits); digest: of `used`; loss: (labels,) so far; short: what it must fall short by at least,
    rank: what it is likely to.
    """

    used: Floats
    digest: NDArray[np.uint64]
    loss: Floats
    short: Floats
    rank: Floats


@kernel
def _labels(count: int, limits: int) -> _Labels:
    return _Labels(
        np.empty((count, limits)), np.zeros(count, np.uint64), np.empty(count), np.empty(count), np.empty(count)
    )


@kernel
def _open(
    rows: Rows, columns: Columns, cost: Floats, budget: float, which: Ints, limits: int
) -> tuple[_Opened, float]:
    """Also returned: the least that a pick left out loses."""
    depth, dropped = len(which), np.inf
    shape = (depth, MOST_OPTIONS)
    opened = _Opened(
        np.empty(shape, np.int64),
        np.empty(shape),
        np.empty(shape, np.int64),
        np.empty(depth, np.int64),
        np.zeros((depth + 1, limits)),
        np.zeros((depth + 1, limits)),
        np.zeros((depth + 1, limits)),
    )
    use = np.empty(limits)
    for d in range(depth - 1, -1, -1):
        row = rows.order[which[d]]
        opened.counts[d], left_out = alternatives(rows, row, cost, budget, opened.option[d], opened.loss[d])
        dropped = min(dropped, left_out)
        opened.least[d] = np.inf
        for i in range(opened.counts[d]):
            column = opened.column[d, i] = column_of(rows, row, opened.option[d, i])
            use[:] = 0.0
            if column >= 0:
                for e in range(columns.begin[column], columns.begin[column + 1]):
                    use[columns.limit[e]] = columns.amount[e]
            for u in range(limits):
                opened.least[d, u] = min(opened.least[d, u], use[u])
                opened.greatest[d, u] = max(opened.greatest[d, u], use[u])
                if i == 0:
                    opened.likely[d, u] = use[u]
        for u in range(limits):
            opened.least[d, u] += opened.least[d + 1, u]
            opened.greatest[d, u] += opened.greatest[d + 1, u]
            opened.likely[d, u] += opened.likely[d + 1, u]
    return opened, dropped


@step
def _same(columns: Columns, column: int, used: Floats, grown: Floats) -> bool:
    """Whether `grown` is `used` and what `column` takes."""
    for u in range(len(used)):
        more = 0.0
        if column >= 0:
            for e in range(columns.begin[column], columns.begin[column + 1]):
                if columns.limit[e] == u:
                    more = columns.amount[e]
        if used[u] + more != grown[u]:
            return False
    return True


@step
def _extend(
    opened: _Opened,
    d: int,
    columns: Columns,
    capacity: Floats,
    prices: Floats,
    budget: float,
    enough: float,
    labels: _Labels,
    count: int,
    grown: _Labels,
    table: Ints,
    factor: NDArray[np.uint64],
    parent: NDArray[np.int32],
    taken: NDArray[np.int8],
) -> tuple[int, float, int]:
    """`grown`: the labels with one row more; (how many, least that one left out falls short by, a plan or -1).

    A plan is a label that falls short by no more than `enough` if all rows after it take their best.
    """
    limits, last = len(capacity), np.uint64(len(table) - 1)
    table[:] = -1
    made, dropped = 0, np.inf
    for p in range(count):
        # As if the row took nothing; what it takes changes that in a limit or two.
        unsold, off, over, excess = 0.0, 0.0, 0.0, 0
        for u in range(limits):
            left = capacity[u] - labels.used[p, u]
            unsold += max(left - opened.greatest[d + 1, u], 0.0) * prices[u]
            spare = left - opened.likely[d + 1, u]
            off += abs(spare) * prices[u]
            over += max(spare, 0.0) * prices[u]
            excess += spare < -_SLACK
        for i in range(opened.counts[d]):
            loss = labels.loss[p] + opened.loss[d, i]
            if loss > budget:
                break
            column = opened.column[d, i]
            fits, short, rank, whole, lacks = True, loss + unsold, loss + _OFF * off, loss + over, excess
            digest = labels.digest[p]
            if column >= 0:
                for e in range(columns.begin[column], columns.begin[column + 1]):
                    u, amount = columns.limit[e], columns.amount[e]
                    left, price = capacity[u] - labels.used[p, u], prices[u]
                    fits = fits and amount + opened.least[d + 1, u] <= left + _SLACK
                    spare = left - opened.greatest[d + 1, u]
                    short -= (max(spare, 0.0) - max(spare - amount, 0.0)) * price
                    spare = left - opened.likely[d + 1, u]
                    rank += _OFF * (abs(spare - amount) - abs(spare)) * price
                    whole -= (max(spare, 0.0) - max(spare - amount, 0.0)) * price
                    lacks += (spare - amount < -_SLACK) - (spare < -_SLACK)
                    digest += digest_of(amount, factor[u])
            if not fits or short > budget:
                continue
            at = place_of(digest, np.uint64(len(table)))
            m = table[at]
            while m >= 0 and not (
                grown.digest[m] == digest and _same(columns, column, labels.used[p], grown.used[m])
            ):
                at = at + np.uint64(1) & last
                m = table[at]
            if m < 0:
                if made == len(grown.loss):
                    dropped = min(dropped, short)
                    continue
                m = table[at] = made
                made += 1
                for u in range(limits):
                    grown.used[m, u] = labels.used[p, u]
                grown.digest[m] = digest
                if column >= 0:
                    for e in range(columns.begin[column], columns.begin[column + 1]):
                        grown.used[m, columns.limit[e]] += columns.amount[e]
            elif grown.loss[m] <= loss:
                continue
            grown.loss[m], grown.short[m], grown.rank[m] = loss, short, rank
            parent[m], taken[m] = p, i
            if lacks == 0 and whole <= enough:
                return made, 0.0, m
    return made, dropped, -1


@kernel
def _keep(
    grown: _Labels, made: int, width: int, kept: _Labels, parent: NDArray[np.int32], taken: NDArray[np.int8]
) -> tuple[int, float]:
    """The `width` labels of the lowest rank; (how many, least that one left out falls short by)."""
    bar = np.inf if made <= width else smallest(grown.rank, made, width)
    at_bar = width
    for m in range(made):
        at_bar -= grown.rank[m] < bar
    n, dropped = 0, np.inf
    for m in range(made):
        if grown.rank[m] > bar or (grown.rank[m] == bar and at_bar == 0):
            dropped = min(dropped, grown.short[m])
            continue
        at_bar -= grown.rank[m] == bar
        kept.digest[n], kept.loss[n] = grown.digest[m], grown.loss[m]
        for u in range(kept.used.shape[1]):
            kept.used[n, u] = grown.used[m, u]
        parent[n], taken[n] = parent[m], taken[m]
        n += 1
    return n, dropped


@kernel
def refine(
    rows: Rows,
    columns: Columns,
    capacity: Floats,
    prices: Floats,
    picks: Ints,
    budget: float,
    enough: float,
    most_rows: int,
    width: int,
) -> tuple[float, float]:
    """Replace `picks` by the best plan that falls short of the bound by less than `budget`, if one is found.

    The first that is found to fall short by no more than `enough` is taken as it is. Nothing is looked for where
    more than `most_rows` rows may pick several things; of combinations of what is taken, `width` are kept after
    each row, those that are likely to fall short least. Returns (shortfall of the new plan, inf where there is
    none; least that a plan left out falls short by).
    """
    limits = len(capacity)
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    count = len(rows.order)
    base = np.empty(count, np.int64)
    which = _undecided(rows, cost, budget, base)
    if len(which) > most_rows:
        return np.inf, 0.0
    opened, dropped = _open(rows, columns, cost, budget, which, limits)
    size = 1
    while size < 32 * width:
        size *= 2
    factor = factors(limits)
    table, grown, labels = np.empty(size, np.int64), _labels(size // 2, limits), _labels(width, limits)
    is_open = np.zeros(count, np.bool_)
    for i in which:
        is_open[i] = True
    labels.loss[0] = 0.0
    for u in range(limits):
        labels.used[0, u] = 0.0
    for i in range(count):
        if not is_open[i]:
            move(columns, column_of(rows, rows.order[i], base[i]), NOTHING, labels.used[0])

    depth = len(which)
    parent, taken = np.empty((depth, size // 2), np.int32), np.empty((depth, size // 2), np.int8)
    n, last, chosen, shortest = _FIRST, depth - 1, -1, np.inf
    for d in range(depth):
        made, left_out, chosen = _extend(
            opened,
            d,
            columns,
            capacity,
            prices,
            budget,
            enough,
            labels,
            n,
            grown,
            table,
            factor,
            parent[d],
            taken[d],
        )
        dropped = min(dropped, left_out)
        if chosen >= 0:
            last, shortest = d, enough
            break
        if made == 0:
            return np.inf, dropped
        n, left_out = _keep(grown, made, width, labels, parent[d], taken[d])
        dropped = min(dropped, left_out)
    if chosen < 0:
        for p in range(n):
            short, fits = labels.loss[p], True
            for u in range(limits):
                spare = capacity[u] - labels.used[p, u]
                fits = fits and spare >= -_SLACK
                short += max(spare, 0.0) * prices[u]
            if fits and short < min(shortest, budget):
                shortest, chosen = short, p
    if chosen < 0:
        return np.inf, dropped
    for i in range(count):
        picks[rows.order[i]] = base[i]
    for d in range(depth):
        picks[rows.order[which[d]]] = opened.option[d, 0]
    for d in range(last, -1, -1):
        picks[rows.order[which[d]]] = opened.option[d, taken[d, chosen]]
        chosen = parent[d, chosen]
    return shortest, dropped
