"""Options of rows that come, change and go: one pool, in which a row's options lie together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from .rows import Flags, Floats, Ints

BEGIN, END, FULL_BEGIN, FULL_END = range(4)  # of a row's options of a group: the envelope, and all
_LEAST_BITS = 3
_LEAST = 1 << _LEAST_BITS  # options a block holds


@kernel
def sift(
    flat: Ints,
    value: Floats,
    by_group: Ints,
    group_begin: Ints,
    size: Floats,
    chain: Flags,
    counts: Ints,
    ranges: NDArray[np.int32],
) -> tuple[NDArray[np.int32], Floats]:
    """(columns, gains) of what can matter of each row's values, one row behind another.

    flat: rising, row * columns + place of what is allowed, by its place in by_group; value: what it is worth.
    by_group: the columns of group g by rising usage, at group_begin[g] .. group_begin[g + 1]; size: (columns,).
    Where chain[g], a column takes no less of any limit than those before it: then only what is worth more than all
    before it is kept, and behind the row's options, where it is not all of a group's, the upper concave envelope
    over size. Written are counts: (rows,), and ranges: (rows, groups, 4), begin and end of the envelope, then of
    the options, counted from the row's first; the envelope of a group that is no chain is all of it.
    """
    rows, groups, columns = len(ranges), ranges.shape[1], len(by_group)
    hull = np.empty(columns, np.int64)
    column, gain = np.empty(2 * len(flat), np.int32), np.empty(2 * len(flat))
    entry, place = 0, 0
    for j in range(rows):
        first = place
        for g in range(groups):
            ranges[j, g, FULL_BEGIN] = place - first
            most = -np.inf
            behind = j * columns + group_begin[g + 1]
            while entry < len(flat) and flat[entry] < behind:
                if value[entry] > most or not chain[g]:
                    most = value[entry]
                    column[place], gain[place] = by_group[flat[entry] - j * columns], most
                    place += 1
                entry += 1
            ranges[j, g, FULL_END] = place - first
        for g in range(groups):
            from_, to = ranges[j, g, FULL_BEGIN], ranges[j, g, FULL_END]
            ranges[j, g, BEGIN], ranges[j, g, END] = from_, to
            if not chain[g]:
                continue
            points = 0
            for k in range(first + from_, first + to):
                x, y = size[column[k]], gain[k]
                if points and size[column[hull[points - 1]]] == x:
                    points -= 1
                while points > 1:
                    at, before = hull[points - 1], hull[points - 2]
                    run, rise = size[column[at]] - size[column[before]], gain[at] - gain[before]
                    if (y - gain[before]) * run < rise * (x - size[column[before]]):
                        break
                    points -= 1
                hull[points] = k
                points += 1
            if points < to - from_:
                ranges[j, g, BEGIN], ranges[j, g, END] = place - first, place - first + points
                for i in range(points):
                    column[place], gain[place] = column[hull[i]], gain[hull[i]]
                    place += 1
        counts[j] = place - first
    return column[:place], gain[:place]


@kernel
def put_options(
    slots: Ints,
    begin: Ints,
    counts: Ints,
    column: NDArray[np.int32],
    gain: Floats,
    ranges: NDArray[np.int32],
    pool_column: NDArray[np.int32],
    pool_value: Floats,
    start: Ints,
    count: Ints,
    all_ranges: NDArray[np.int32],
) -> None:
    """Write what `sift` found into the pool, where each row's begin, and into start, count and ranges by slot."""
    place = 0
    for i in range(len(slots)):
        slot, first = slots[i], begin[i]
        start[slot], count[slot] = first, counts[i]
        for k in range(counts[i]):
            pool_column[first + k], pool_value[first + k] = column[place], gain[place]
            place += 1
        for g in range(ranges.shape[1]):
            for e in range(4):
                all_ranges[slot, g, e] = first + ranges[i, g, e]


@kernel
def _bits(count: int) -> int:
    """Logarithm of the size of the block for so many options."""
    found = _LEAST_BITS
    while 1 << found < count:
        found += 1
    return found


@kernel
def _bits_of(counts: Ints) -> Ints:
    found = np.empty_like(counts)
    for i in range(len(counts)):
        found[i] = _bits(counts[i])
    return found


@kernel
def _lack_room(start: Ints, had: Ints, counts: Ints) -> Ints:
    """Places of rows whose options, at `start` (-1: nowhere), were `had` and need a block of another size."""
    out, found = np.empty(len(start), np.int64), 0
    for i in range(len(start)):
        if start[i] < 0 or _bits(had[i]) != _bits(counts[i]):
            out[found] = i
            found += 1
    return out[:found]


_MOST_OPTIONS = np.iinfo(np.int32).max  # rows know where theirs begin as int32


class OptionPool:
    """Flat arrays `column` and `value`; blocks are handed out in powers of two and used again."""

    def __init__(self) -> None:
        self.column = np.zeros(1024, np.int32)
        self.value = np.zeros(1024)
        self._end = 0
        self._free: dict[int, list[int]] = {}  # starts of blocks that are free, by the logarithm of their size

    def expect(self, counts: Ints) -> None:
        """(rows,) options of rows that are to be put.

        Raises:
            MemoryError: there is no number for the last of them.
        """
        most = self._end + 2 * int(counts.sum()) + len(counts) * _LEAST  # blocks may be twice as large
        if most > _MOST_OPTIONS:
            raise MemoryError(f"options: there would be {most}, and a program has room for {_MOST_OPTIONS}")

    def move(self, start: Ints, had: Ints, counts: Ints) -> Ints:
        """(rows,) where `counts` options begin that begin at `start` (-1: nowhere) and were `had`.

        Blocks of the right size stay, all others are given back first.
        """
        found, others = start.copy(), _lack_room(start, had, counts)
        if not len(others):
            return found
        there = others[start[others] >= 0]
        self.release(start[there], had[there])
        size = _bits_of(counts[others])
        for bits in np.flatnonzero(np.bincount(size)).tolist():
            mine = others[size == bits]
            found[mine] = self._reserve(bits, len(mine))
        return found

    def release(self, start: Ints, counts: Ints) -> None:
        size = _bits_of(counts)
        for bits in np.flatnonzero(np.bincount(size)).tolist():
            self._free.setdefault(bits, []).extend(start[size == bits].tolist())

    def _reserve(self, bits: int, blocks: int) -> list[int]:
        free = self._free.get(bits, [])
        kept = max(len(free) - blocks, 0)
        found, fresh = free[kept:], max(blocks - len(free), 0)
        del free[kept:]
        found += range(self._end, self._end + (fresh << bits), 1 << bits)
        self._end += fresh << bits
        if self._end > len(self.column):
            room = max(self._end, 2 * len(self.column))
            self.column = np.concatenate([self.column, np.zeros(room - len(self.column), np.int32)])
            self.value = np.concatenate([self.value, np.zeros(room - len(self.value))])
        return found
