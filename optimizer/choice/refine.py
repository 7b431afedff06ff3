"""The best combination of picks that cost little at the prices; compiled.

At any prices what a plan falls short of the bound is made of two things that are never negative: what each row
loses by its pick, against its best, and what the capacity left over would have sold for. A better plan than the
one at hand has less of both together; so only picks that lose less than that can be in it, and combinations of
them that take the same of every limit differ only in what they lose. That is a shortest path over rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .rows import NOTHING, STAY, Columns, Floats, Ints, Rows, best_of, column_of, costs, gain_of

_SLACK = 1e-9
_OFF = 0.5  # weight of what is likely to be over or left, in the choice of combinations to keep


@njit(cache=True)
def _alternatives(
    rows: Rows, row: int, cost: Floats, budget: float, picks: Ints, losses: Floats, most: int
) -> tuple[int, float]:
    """Picks that lose at most `budget` against the best, cheapest first, and the least that one left out loses."""
    top, _ = best_of(rows, row, cost)
    n, dropped = 0, np.inf
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


@njit(cache=True)
def _find(table: Ints, used: Floats, key: Floats, size: int) -> np.int64:
    """Place of a usage vector in the hash table, or of the free entry where it belongs."""
    h = np.uint64(1469598103934665603)
    for i in range(len(key)):
        h = (h ^ np.uint64(np.int64(np.round(key[i] * 64.0)))) * np.uint64(1099511628211)
        h ^= h >> np.uint64(29)
    at = np.int64(h & np.uint64(size - 1))
    while table[at] >= 0:
        same = True
        for i in range(len(key)):
            if used[table[at], i] != key[i]:
                same = False
                break
        if same:
            return at
        at = (at + 1) & (size - 1)
    return at


@njit(cache=True)
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


@njit(cache=True)
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
    second, change = np.full(count, np.inf), np.empty((count, 3), np.int64)
    ratio, work = np.full(count, np.inf), np.empty(len(prices))
    for i in range(count):
        row = rows.order[i]
        n, _ = _alternatives(rows, row, cost, budget, option, lost, 2)
        base[i] = picks[row] if n > 1 else option[0]
        if n > 1:
            second[i] = lost[1]
            change[i, 0], change[i, 1] = column_of(rows, row, option[0]), column_of(rows, row, option[1])
            top, _ = best_of(rows, row, cost)
            ratio[i], change[i, 2] = _cheapest_change(rows, columns, row, option[0], top, cost, prices, work)
    if (second < np.inf).sum() <= most_rows:
        most_alike = count
    chosen = np.empty(most_rows, np.int64)
    is_open = np.zeros(count, np.bool_)
    n, left_out = 0, np.inf
    for i in range(count):
        if n < most_rows and second[i] < np.inf and (torn == rows.order[i]).any():
            chosen[n], is_open[i] = i, True
            n += 1
    # In turn, what loses least and what loses least for what it moves: small changes and large ones are needed.
    by_loss, by_ratio = np.argsort(second, kind="mergesort"), np.argsort(ratio, kind="mergesort")
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
    chosen = chosen[:n]
    worth = np.empty(n)
    for m in range(n):
        worth[m] = 0.0
        for column in change[chosen[m], :2]:
            if column >= 0:
                worth[m] = max(worth[m], cost[column])
    return chosen[np.argsort(-worth, kind="mergesort")], loss, left_out


@njit(cache=True, nogil=True)
def refine(
    rows: Rows,
    columns: Columns,
    capacity: Floats,
    prices: Floats,
    picks: Ints,
    torn: Ints,
    budget: float,
    most_rows: int,
    most_alike: int,
    width: int,
) -> tuple[float, float]:
    """Replace `picks` by the best plan that falls short of the bound by less than `budget`, if one is found.

    Of the rows `most_rows` are searched, `torn` ones among them; of combinations of what is taken, `width` are
    kept after each row, those that are sure to lose least. Returns (shortfall of the new plan, inf where there
    is none; least that any plan left out falls short by).
    """
    limits = len(capacity)
    most = 32
    cost = np.empty(len(columns.begin) - 1)
    costs(columns, prices, cost)
    count = len(rows.order)
    base = np.empty(count, np.int64)
    open_rows, closed_loss, dropped = _select(
        rows, columns, prices, cost, picks, torn, budget, most_rows, most_alike, base
    )
    is_open = np.zeros(count, np.bool_)
    is_open[open_rows] = True
    taken = np.zeros(limits)
    for i in range(count):
        column = column_of(rows, rows.order[i], base[i])
        if not is_open[i] and column >= 0:
            for e in range(columns.begin[column], columns.begin[column + 1]):
                taken[columns.limit[e]] += columns.amount[e]

    depth = len(open_rows)
    options = np.empty((depth, most), np.int64)
    losses = np.empty((depth, most))
    counts = np.empty(depth, np.int64)
    uses = np.zeros((depth, most, limits))
    least, greatest = np.zeros((depth + 1, limits)), np.zeros((depth + 1, limits))
    likely = np.zeros((depth + 1, limits))
    for d in range(depth - 1, -1, -1):
        row = rows.order[open_rows[d]]
        counts[d], left_out = _alternatives(rows, row, cost, budget, options[d], losses[d], most)
        dropped = min(dropped, left_out)
        least[d], greatest[d] = np.inf, 0.0
        for i in range(counts[d]):
            column = column_of(rows, row, options[d, i])
            if column >= 0:
                for e in range(columns.begin[column], columns.begin[column + 1]):
                    uses[d, i, columns.limit[e]] += columns.amount[e]
            for u in range(limits):
                least[d, u] = min(least[d, u], uses[d, i, u])
                greatest[d, u] = max(greatest[d, u], uses[d, i, u])
        for u in range(limits):
            least[d, u] += least[d + 1, u]
            greatest[d, u] += greatest[d + 1, u]
            likely[d, u] = uses[d, 0, u] + likely[d + 1, u]

    size = 1
    while size < 32 * width:
        size *= 2
    most_labels = size // 2
    table = np.empty(size, np.int64)
    used, next_used = np.empty((most_labels, limits)), np.empty((most_labels, limits))
    loss, next_loss, sure = np.empty(most_labels), np.empty(most_labels), np.empty(most_labels)
    rank = np.empty(most_labels)
    parent, taken_option = np.empty((depth, most_labels), np.int32), np.empty((depth, most_labels), np.int8)
    used[0], loss[0] = taken, closed_loss
    labels = 1
    key = np.empty(limits)
    for d in range(depth):
        table[:] = -1
        made = 0
        for p in range(labels):
            for i in range(counts[d]):
                total = loss[p] + losses[d, i]
                if total > budget:
                    break
                fits, unsold = True, 0.0
                for u in range(limits):
                    key[u] = used[p, u] + uses[d, i, u]
                    if key[u] + least[d + 1, u] > capacity[u] + _SLACK:
                        fits = False
                        break
                    spare = capacity[u] - key[u] - greatest[d + 1, u]
                    if spare > 0.0:
                        unsold += spare * prices[u]
                if not fits or total + unsold > budget:
                    continue
                at = _find(table, next_used, key, size)
                m = table[at]
                if m < 0:
                    if made == most_labels:
                        dropped = min(dropped, total + unsold)
                        continue
                    m = table[at] = made
                    next_used[m] = key
                    made += 1
                elif next_loss[m] <= total:
                    continue
                next_loss[m], sure[m] = total, total + unsold
                # What is likely to be over or left at the end, at what it would sell for, and what is lost by now.
                rank[m] = total
                for u in range(limits):
                    rank[m] += _OFF * prices[u] * abs(capacity[u] - key[u] - likely[d + 1, u])
                parent[d, m], taken_option[d, m] = p, i
        if made == 0:
            return np.inf, dropped
        if made > width:
            order = np.argsort(rank[:made], kind="mergesort")
            dropped = min(dropped, sure[order[width:]].min())
            order = order[:width]
            for m in range(width):
                k = order[m]
                used[m], loss[m] = next_used[k], next_loss[k]
            parent[d, :width], taken_option[d, :width] = parent[d][order], taken_option[d][order]
            made = width
        else:
            used, next_used = next_used, used
            loss, next_loss = next_loss, loss
        labels = made

    shortest, chosen = np.inf, -1
    for p in range(labels):
        short, fits = loss[p], True
        for u in range(limits):
            spare = capacity[u] - used[p, u]
            fits = fits and spare >= -_SLACK
            short += max(spare, 0.0) * prices[u]
        if fits and short < shortest:
            shortest, chosen = short, p
    if chosen < 0 or shortest >= budget:
        return np.inf, dropped
    for i in range(count):
        picks[rows.order[i]] = base[i]
    for d in range(depth - 1, -1, -1):
        picks[rows.order[open_rows[d]]] = options[d, taken_option[d, chosen]]
        chosen = parent[d, chosen]
    return shortest, dropped
