"""Finds the options of a row that can matter, and keeps them in a pool of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from .options import Flags, Floats, Ints

# Where the concave envelope of a row's options of a group begins and ends, and where all of them do.
BEGIN, END, FULL_BEGIN, FULL_END = range(4)
_LEAST_BITS = 3
_LEAST = 1 << _LEAST_BITS  # options in the smallest block


@kernel
def sift(
    flat: Ints,
    value: Floats,
    kind: Ints,
    by_group: Ints,
    group_begin: Ints,
    size: Floats,
    chain: Flags,
    counts: Ints,
    ranges: NDArray[np.int32],
) -> tuple[NDArray[np.int32], Floats]:
    """Return columns and gains of the options that can matter, one row behind another.

    In a group that is a chain, a column takes no less of any limit than those before it. So an option is kept only
    if it gains more than all before it. The concave envelope of the group's gains over size follows behind the
    row's options, unless it is all of them. The envelope of any other group is all of its options.

    Returned columns are numbered kind * columns + column.

    Args:
        flat: row * columns + place of each allowed entry, rising; places count along by_group.
        value: the gain of each allowed entry.
        kind: (rows,).
        by_group: (columns,) the columns of group g by rising size, from group_begin[g] to group_begin[g + 1].
        size: (columns,).
        counts: (rows,) written, the number of options.
        ranges: (rows, groups, 4) written, `BEGIN` to `FULL_END`, counted from the row's first option.
    """
    rows, groups, columns = len(ranges), ranges.shape[1], len(by_group)
    hull = np.empty(columns, np.int64)
    column, gain = np.empty(2 * len(flat), np.int32), np.empty(2 * len(flat))
    entry, place = 0, 0
    for j in range(rows):
        first, base = place, kind[j] * columns
        for g in range(groups):
            ranges[j, g, FULL_BEGIN] = place - first
            most = -np.inf
            behind = j * columns + group_begin[g + 1]
            while entry < len(flat) and flat[entry] < behind:
                if value[entry] > most or not chain[g]:
                    most = value[entry]
                    column[place], gain[place] = base + by_group[flat[entry] - j * columns], most
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
                x, y = size[column[k] - base], gain[k]
                if points and size[column[hull[points - 1]] - base] == x:
                    points -= 1
                while points > 1:
                    at, before = hull[points - 1], hull[points - 2]
                    left = size[column[before] - base]
                    run, rise = size[column[at] - base] - left, gain[at] - gain[before]
                    if (y - gain[before]) * run < rise * (x - left):
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


_MOST_OPTIONS = np.iinfo(np.int32).max  # as rows hold places of options as int32


def _bits_of(counts: Ints) -> Ints:
    """Return (rows,) the binary logarithm of the block size for each count of options."""
    bits = np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
    return np.maximum(bits, _LEAST_BITS)


class OptionPool:
    """The flat arrays `column` and `value`. Blocks of them have powers of two as sizes and are used again."""

    def __init__(self) -> None:
        self.column = np.zeros(1024, np.int32)
        self.value = np.zeros(1024)
        self._end = 0
        self._free: dict[int, list[int]] = {}  # starts of free blocks, by the logarithm of their size

    def expect(self, counts: Ints) -> None:
        """Check that there is room for rows with these counts of options.

        Raises:
            MemoryError: if there are more options than an int32 can number.
        """
        most = self._end + 2 * int(counts.sum()) + len(counts) * _LEAST  # blocks may be twice as large
        if most > _MOST_OPTIONS:
            raise MemoryError(f"options: there would be {most}, and a program has room for {_MOST_OPTIONS}")

    def move(self, start: Ints, had: Ints, counts: Ints) -> Ints:
        """Return (rows,) where each row's `counts` options begin from now on.

        Blocks of the right size stay. All others are released first. Until now each row has had `had` options,
        which began at `start` (-1 for a new row).
        """
        found = start.copy()
        others = np.flatnonzero((start < 0) | (_bits_of(had) != _bits_of(counts)))
        if not len(others):
            return found
        there = others[start[others] >= 0]
        self.release(start[there], had[there])
        size = _bits_of(counts[others])
        for bits in np.flatnonzero(np.bincount(size)).tolist():
            same_size = others[size == bits]
            found[same_size] = self._reserve(bits, len(same_size))
        return found

    def write(self, begin: Ints, counts: Ints, column: NDArray[np.int32], gain: Floats) -> None:
        """Write the options of rows, given one row behind another, to where each row's block begins."""
        places = np.repeat(begin - np.cumsum(counts) + counts, counts) + np.arange(len(column))
        self.column[places], self.value[places] = column, gain

    def release(self, start: Ints, counts: Ints) -> None:
        """Take back the blocks of rows whose `counts` options begin at `start`."""
        size = _bits_of(counts)
        for bits in np.flatnonzero(np.bincount(size)).tolist():
            self._free.setdefault(bits, []).extend(start[size == bits].tolist())

    def _reserve(self, bits: int, blocks: int) -> list[int]:
        """Return the starts of so many blocks of size 2 ** bits."""
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
