"""Options of rows that come, change and go: one pool, in which a row's options lie together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from .rows import Flags, Floats, Ints


@kernel
def sift(
    flat: Ints,
    value: Floats,
    by_group: Ints,
    group_begin: Ints,
    size: Floats,
    chain: Flags,
    counts: Ints,
    begin: Ints,
    end: Ints,
    full_begin: Ints,
    full_end: Ints,
) -> tuple[NDArray[np.int32], Floats]:
    """(columns, gains) of what can matter of each row's values, one row behind another.

    flat: rising, row * columns + place of what is allowed, by its place in by_group; value: what it is worth.
    by_group: the columns of group g by rising usage, at group_begin[g] .. group_begin[g + 1]; size: (columns,).
    Where chain[g], a column takes no less of any limit than those before it: then only what is worth more than all
    before it is kept, and behind the row's options, where it is not all of a group's, the upper concave envelope
    over size. Written are counts: (rows,), and full_begin, full_end, begin, end: (rows, groups) of the options and
    of the envelope, counted from the row's first; the envelope of a group that is no chain is all of it.
    """
    rows, groups = begin.shape
    columns = len(by_group)
    hull = np.empty(columns, np.int64)
    column, gain = np.empty(2 * len(flat), np.int32), np.empty(2 * len(flat))
    entry, place = 0, 0
    for j in range(rows):
        first = place
        for g in range(groups):
            full_begin[j, g] = place - first
            most = -np.inf
            behind = j * columns + group_begin[g + 1]
            while entry < len(flat) and flat[entry] < behind:
                if value[entry] > most or not chain[g]:
                    most = value[entry]
                    column[place], gain[place] = by_group[flat[entry] - j * columns], most
                    place += 1
                entry += 1
            full_end[j, g] = place - first
        for g in range(groups):
            begin[j, g], end[j, g] = full_begin[j, g], full_end[j, g]
            if not chain[g]:
                continue
            points = 0
            for k in range(first + full_begin[j, g], first + full_end[j, g]):
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
            if points < full_end[j, g] - full_begin[j, g]:
                begin[j, g] = place - first
                end[j, g] = begin[j, g] + points
                for i in range(points):
                    column[place], gain[place] = column[hull[i]], gain[hull[i]]
                    place += 1
        counts[j] = place - first
    return column[:place], gain[:place]


_LEAST = 8  # options a block holds
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
        size = _bits(counts)
        others = np.flatnonzero((start < 0) | (size != _bits(had)))
        there = others[start[others] >= 0]
        self.release(start[there], had[there])
        found, size = start.copy(), size[others]
        for bits in np.flatnonzero(np.bincount(size)).tolist():
            mine = others[size == bits]
            found[mine] = self._reserve(bits, len(mine))
        return found

    def release(self, start: Ints, counts: Ints) -> None:
        size = _bits(counts)
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


def _bits(counts: Ints) -> Ints:
    """(rows,) logarithms of the sizes of blocks for so many options."""
    return np.frexp(np.maximum(counts - 1, _LEAST - 1).astype(float))[1].astype(np.int64)
