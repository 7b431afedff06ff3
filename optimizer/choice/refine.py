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

from ..compiled import constant, kernel
from .rows import NOTHING, STAY, Columns, Floats, Ints, Rows, best_of, by_rising, column_of, costs, gain_of, holds

_SLACK = 1e-9
_MOST_OPTIONS = 32  # of a row
_FIRST = constant(1)  # labels, before any row
_MIX = np.uint64(0x9E3779B97F4A7C15)
_OFF = 0.5  # weight of what is likely to be over or left, in the choice of combinations to keep


@kernel
def _alternatives(
    rows: Rows, row: int, cost: Floats, budget: float, picks: Ints, losses: Floats
) -> tuple[int, float]:
    """Picks that lose at most `budget` against the best, cheapest first, and the least that one left out loses.

    As many as `picks` and `losses` have room for are written there; their number is returned.
    """
    top, _ = best_of(rows, row, cost)
    n, most, dropped = 0, len(picks), np.inf
    groups = len(rows.concave)
    for g in range(-2, groups):
        begin, end = (rows.begin[row, g], rows.end[row, g]) if g >= 0 else (g, g + 1)
        for k in range(begin, end):
            column = column_of(rows, row, k)
            if (k == NOTHING and rows.required[row]) or (k == STAY and column < 0):
                continue
            loss = top - gain_of(rows, row, k) + (cost[column] if column >= 0 else 0.0)
            if loss > budget or (n == most and loss >= losses[n - 1]):
                if n == most:
                    dropped = min(dropped, loss)
                continue
            if n == most:
                dropped = min(dropped, losses[n - 1])
                n -= 1
            i = n
            while i > 0 and losses[i - 1] > loss:
                picks[i], losses[i] = picks[i - 1], losses[i - 1]
                i -= 1
            picks[i], losses[i] = k, max(loss, 0.0)
            n += 1
    return n, dropped


@kernel
def _cheapest_change(
    rows: Rows, columns: Columns, row: int, best: int, top: float, cost: Floats, prices: Floats, work: Floats
) -> tuple[float, int]:
    """The pick that loses least against the best for the worth of GPUs it moves, and that loss a unit."""
    least, chosen = np.inf, best
    base = column_of(rows, row, best)
    for g in range(-2, len(rows.concave)):
        begin, end = (rows.begin[row, g], rows.end[row, g]) if g >= 0 else (g, g + 1)
        for k in range(begin, end):
            column = column_of(rows, row, k)
            if k == best or (k == NOTHING and rows.required[row]) or (k == STAY and column < 0):
                continue
            loss = top - gain_of(rows, row, k) + (cost[column] if column >= 0 else 0.0)
            work[:] = 0.0
            if base >= 0:
                for e in range(columns.begin[base], columns.begin[base + 1]):
                    work[columns.limit[e]] += columns.amount[e]
            if column >= 0:
                for e in range(columns.begin[column], columns.begin[column + 1]):
                    work[columns.limit[e]] -= columns.amount[e]
            moved = 0.0
            for u in range(len(prices)):
                moved += prices[u] * abs(work[u])
            if moved > 0.0 and loss < least * moved:
                least, chosen = loss / moved, column
    return least, chosen


@kernel
def _select(
    rows: Rows,
    columns: Columns,
    prices: Floats,
    cost: Floats,
    picks: Ints,
    torn: Ints,
    budget: float,
    most_rows: int,
    most_alike: int,
    base: Ints,
) -> tuple[Ints, float, float]:
    """Places in `order` of the rows to search over, dearest alternatives first.

    These are the torn ones and those with the cheapest alternatives, where there are many no more than a few that
    would make the same change. The others keep their picks, or the only one that costs little enough: `base`.
    Also returned: what they lose, and the least that a plan loses in which another row of them changes.
    """
    count = len(rows.order)
    option, lost = np.empty(2, np.int64), np.empty(2)
    second, change = np.empty(count), np.empty((count, 3), np.int64)
    ratio, work = np.empty(count), np.empty(len(prices))
    second[:] = ratio[:] = np.inf
    undecided = 0
    for i in range(count):
        row = rows.order[i]
        n, _ = _alternatives(rows, row, cost, budget, option, lost)
        base[i] = picks[row] if n > 1 else option[0]
        if n > 1:
            undecided += 1
            second[i] = lost[1]
            change[i, 0], change[i, 1] = column_of(rows, row, option[0]), column_of(rows, row, option[1])
            top, _ = best_of(rows, row, cost)
            ratio[i], change[i, 2] = _cheapest_change(rows, columns, row, option[0], top, cost, prices, work)
    if undecided <= most_rows:
        most_alike = count
    chosen = np.empty(most_rows, np.int64)
    is_open = np.zeros(count, np.bool_)
    n, left_out = 0, np.inf
    for i in range(count):
        if n < most_rows and second[i] < np.inf and holds(torn, rows.order[i]):
            chosen[n], is_open[i] = i, True
            n += 1
    # In turn, what loses least and what loses least for what it moves: small changes and large ones are needed.
    by_loss, by_ratio = by_rising(second), by_rising(ratio)
    for at in range(2 * count):
        i = by_loss[at // 2] if at % 2 == 0 else by_ratio[at // 2]
        if second[i] == np.inf or is_open[i]:
            continue
        alike, kind = 0, 1 + at % 2
        for m in range(n):
            alike += change[chosen[m], 0] == change[i, 0] and change[chosen[m], kind] == change[i, kind]
        if n < most_rows and alike < most_alike:
            chosen[n], is_open[i] = i, True
            n += 1
    for i in range(count):
        if second[i] < np.inf and not is_open[i]:
            left_out = 0.0
    loss = 0.0
    for i in range(count):
        if not is_open[i]:
            column = column_of(rows, rows.order[i], base[i])
            top, _ = best_of(rows, rows.order[i], cost)
            loss += max(top - gain_of(rows, rows.order[i], base[i]) + (cost[column] if column >= 0 else 0.0), 0.0)
    worth = np.zeros(n)  # less than nothing: the dearest come first
    for m in range(n):
        for c in range(2):
            column = change[chosen[m], c]
            if column >= 0:
                worth[m] = min(worth[m], -cost[column])
    dearest = by_rising(worth)
    for m in range(n):
        dearest[m] = chosen[dearest[m]]
    return dearest, loss, left_out


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
def _factors(limits: int) -> NDArray[np.uint64]:
    """Odd numbers unlike each other: digests are sums of what is taken, times these."""
    found = np.empty(limits, np.uint64)
    state = _MIX
    for u in range(limits):
        state = (state ^ (state >> np.uint64(31))) * _MIX + np.uint64(u)
        found[u] = state | np.uint64(1)
    return found


@kernel
def _open(
    rows: Rows, columns: Columns, cost: Floats, budget: float, which: Ints, limits: int
) -> tuple[_Opened, float]:
    """Also returned: the least that a pick left out loses."""
    depth, dropped = len(which), np.inf
    shape = (depth, _MOST_OPTIONS)
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
        opened.counts[d], left_out = _alternatives(rows, row, cost, budget, opened.option[d], opened.loss[d])
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


@kernel
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


@kernel
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
    factors: NDArray[np.uint64],
    parent: NDArray[np.int32],
    taken: NDArray[np.int8],
) -> tuple[int, float, int]:
    """`grown`: the labels with one row more; (how many, least that one left out falls short by, a plan or -1).

    A plan is a label that falls short by no more than `enough` if all rows after it take their best.
    """
    limits, size = len(capacity), np.uint64(len(table) - 1)
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
                    digest += np.uint64(np.int64(amount * 64.0 + 0.5)) * factors[u]
            if not fits or short > budget:
                continue
            at = (digest ^ (digest >> np.uint64(29))) * _MIX >> np.uint64(20) & size
            m = table[at]
            while m >= 0 and not (
                grown.digest[m] == digest and _same(columns, column, labels.used[p], grown.used[m])
            ):
                at = at + np.uint64(1) & size
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
def _smallest(numbers: Floats, count: int, width: int) -> float:
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
def _keep(
    grown: _Labels, made: int, width: int, kept: _Labels, parent: NDArray[np.int32], taken: NDArray[np.int8]
) -> tuple[int, float]:
    """The `width` labels of the lowest rank; (how many, least that one left out falls short by)."""
    bar = np.inf if made <= width else _smallest(grown.rank, made, width)
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
    torn: Ints,
    budget: float,
    enough: float,
    most_rows: int,
    most_alike: int,
    width: int,
) -> tuple[float, float]:
    """Replace `picks` by the best plan that falls short of the bound by less than `budget`, if one is found.

    The first that is found to fall short by no more than `enough` is taken as it is. Of the rows `most_rows` are
    searched, `torn` ones among them; of combinations of what is taken, `width` are kept after each row, those that
    are likely to fall short least. Returns (shortfall of the new plan, inf where there is none; least that a plan
    left out falls short by).
    """
    limits = len(capacity)
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    count = len(rows.order)
    base = np.empty(count, np.int64)
    which, closed_loss, dropped = _select(
        rows, columns, prices, cost, picks, torn, budget, most_rows, most_alike, base
    )
    opened, left_out = _open(rows, columns, cost, budget, which, limits)
    dropped = min(dropped, left_out)
    size = 1
    while size < 32 * width:
        size *= 2
    factors = _factors(limits)
    table, grown, labels = np.empty(size, np.int64), _labels(size // 2, limits), _labels(width, limits)
    is_open = np.zeros(count, np.bool_)
    for i in which:
        is_open[i] = True
    labels.loss[0] = closed_loss
    for u in range(limits):
        labels.used[0, u] = 0.0
    for i in range(count):
        column = column_of(rows, rows.order[i], base[i])
        if not is_open[i] and column >= 0:
            for e in range(columns.begin[column], columns.begin[column + 1]):
                labels.used[0, columns.limit[e]] += columns.amount[e]

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
            factors,
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
