"""Plans made row by row, those that can become best at prices of rows; compiled.

What is left of a plan's beginning is a capacity of each limit and the rows that follow, and of those the tables of
packings (`packing.py`) say at once what they can add at most. Of beginnings that take the same of every limit only
the best matters, and none matters that cannot lead to a better plan than the one at hand: dynamic programming with
bounds (Marsten and Morin, 1978). So many are kept after each row, those of the greatest bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import constant, kernel, step
from .digests import digest_of, factors, place_of
from .opened import Open
from .packing import Tables
from .rows import NOTHING, Floats, Ints, smallest

_MADE = 16  # times as many beginnings as are kept are made before the others are dropped
_FIRST = constant(1)


class _Beginnings(NamedTuple):
    """used: (beginnings, limits) units; gain: so far; bound: of plans that begin so; parent, option: the last."""

    used: Ints
    digest: NDArray[np.uint64]
    gain: Floats
    bound: Floats
    parent: Ints
    option: Ints


@kernel
def _beginnings(count: int, limits: int) -> _Beginnings:
    return _Beginnings(
        np.zeros((count, limits), np.int64),
        np.zeros(count, np.uint64),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
    )


@step
def _same(made: _Beginnings, m: int, from_: _Beginnings, p: int, limit: int, size: int) -> bool:
    """Whether beginning m takes what p does, and `size` more of a limit."""
    same = True
    for u in range(made.used.shape[1]):
        same = same and made.used[m, u] == from_.used[p, u] + (size if u == limit else 0)
    return same


@kernel
def _keep_best(made: _Beginnings, count: int, width: int, table: Ints) -> tuple[int, float]:
    """Keep the `width` of the greatest bounds, in their order, and the table; (how many, the greatest lost)."""
    table[:] = -1
    negative = np.empty(count)
    for m in range(count):
        negative[m] = -made.bound[m]
    bar = -np.inf if count <= width else -smallest(negative, count, width)
    at_bar = width
    for m in range(count):
        at_bar -= made.bound[m] > bar
    n, lost = 0, -np.inf
    for m in range(count):
        if made.bound[m] < bar or (made.bound[m] == bar and at_bar == 0):
            lost = max(lost, made.bound[m])
            continue
        at_bar -= made.bound[m] == bar
        for u in range(made.used.shape[1]):
            made.used[n, u] = made.used[m, u]
        made.digest[n], made.gain[n], made.bound[n] = made.digest[m], made.gain[m], made.bound[m]
        made.parent[n], made.option[n] = made.parent[m], made.option[m]
        at = place_of(made.digest[n], np.uint64(len(table)))
        while table[at] >= 0:
            at = (at + np.uint64(1)) & np.uint64(len(table) - 1)
        table[at] = n
        n += 1
    return n, lost


@step
def _bounds(
    opened: Open, tables: Tables, later: float, i: int, kept: _Beginnings, count: int, bounds: Floats
) -> float:
    """bounds[p, k]: of beginning p with option k of row i, which is counted from 1; of 0: without the row.

    later: prices of the rows that follow. Returns what each beginning can at least be made to: the least of the
    greatest bounds of each.
    """
    bar = np.inf
    for p in range(count):
        rest, most = kept.gain[p] + later, -np.inf
        for u in range(len(opened.capacity)):
            rest += tables.best[tables.at[i + 1, u], opened.capacity[u] - kept.used[p, u]]
        bounds[p, 0] = -np.inf if opened.must[i] else rest
        most = bounds[p, 0]
        for k in range(opened.begin[i], opened.begin[i + 1]):
            u, more = opened.limit[k], opened.size[k]
            left, packed, bound = opened.capacity[u] - kept.used[p, u], tables.at[i + 1, u], -np.inf
            if more <= left:
                bound = rest + opened.gain[k] + tables.best[packed, left - more] - tables.best[packed, left]
            bounds[p, k - opened.begin[i] + 1] = bound
            most = bound if bound > most else most
        bar = min(bar, most)
    return bar


@kernel
def row_by_row(
    opened: Open, price: Floats, tables: Tables, enough: float, width: int
) -> tuple[float, float, Ints]:
    """(gain, bound of what was left out, (rows,) option of each row or NOTHING) of the best plan above `enough`.

    The gain is -inf where no such plan was found. What is left out because of `enough` alone is not in the bound.
    """
    rows, limits = len(opened.row), len(opened.capacity)
    most, options = _MADE * width, 0
    size = 1
    while size < 2 * most:
        size *= 2
    table, factor = np.empty(size, np.int64), factors(limits)
    made, kept = _beginnings(most, limits), _beginnings(most, limits)
    parent, option = np.empty((rows, width), np.int64), np.empty((rows, width), np.int64)
    count, lost, later = _FIRST, -np.inf, 0.0
    for i in range(rows):
        later += price[i]
        options = max(options, opened.begin[i + 1] - opened.begin[i])
    bounds = np.empty((width, options + 1))
    for i in range(rows):
        later -= price[i]
        table[:] = -1
        new = 0
        bar = _bounds(opened, tables, later, i, kept, count, bounds)
        if count < width:
            bar = -np.inf  # there are not as many yet as are kept
        for p in range(count):
            for k in range(opened.begin[i] - 1, opened.begin[i + 1]):
                bound = bounds[p, k - opened.begin[i] + 1]
                if bound <= enough:
                    continue
                if bound < bar:  # as many others are of greater bounds, or almost as many where some take the same
                    lost = max(lost, bound)
                    continue
                gain, digest, u, more = kept.gain[p], kept.digest[p], 0, 0
                if k >= opened.begin[i]:
                    u, more = opened.limit[k], opened.size[k]
                    gain += opened.gain[k]
                    digest += digest_of(more, factor[u])
                at = place_of(digest, np.uint64(size))
                while table[at] >= 0 and not (
                    made.digest[table[at]] == digest and _same(made, table[at], kept, p, u, more)
                ):
                    at = (at + np.uint64(1)) & np.uint64(size - 1)
                m = table[at]
                if m < 0:
                    if new == most:
                        new, left_out = _keep_best(made, new, width, table)
                        lost = max(lost, left_out)
                        at = place_of(digest, np.uint64(size))
                        while table[at] >= 0:
                            at = (at + np.uint64(1)) & np.uint64(size - 1)
                    m = table[at] = new
                    new += 1
                    for v in range(limits):
                        made.used[m, v] = kept.used[p, v]
                    made.used[m, u] += more
                    made.digest[m] = digest
                elif made.gain[m] >= gain:
                    continue
                made.gain[m], made.bound[m] = gain, bound
                made.parent[m], made.option[m] = p, k if k >= opened.begin[i] else NOTHING
        if new == 0:
            return -np.inf, lost, np.empty(0, np.int64)
        new, left_out = _keep_best(made, new, width, table)
        lost = max(lost, left_out)
        for m in range(new):
            parent[i, m], option[i, m] = made.parent[m], made.option[m]
        made, kept, count = kept, made, new
    best = 0
    for m in range(count):
        if kept.gain[m] > kept.gain[best]:
            best = m
    gain, choice = kept.gain[best], np.empty(rows, np.int64)
    for i in range(rows - 1, -1, -1):
        choice[i], best = option[i, best], parent[i, best]
    return gain, lost, choice
