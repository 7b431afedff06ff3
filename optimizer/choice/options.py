"""Options of rows that come, change and go: one pool, in which a row's options lie together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from .rows import Flags, Floats, Ints


@kernel
def sift(
    value: Floats,
    allowed: Flags,
    by_group: Ints,
    group_begin: Ints,
    size: Floats,
    chain: Flags,
    counts: Ints,
    column: NDArray[np.int32],
    gain: Floats,
    begin: Ints,
    end: Ints,
    full_begin: Ints,
    full_end: Ints,
) -> int:
    """Write what can matter of each row's values; where `column` is empty, only count it.

    value, allowed: (rows, columns). by_group: the columns of group g by rising usage, at group_begin[g] ..
    group_begin[g + 1]; size: (columns,). Where chain[g], a column takes no less of any limit than those before it:
    then only what is worth more than all before it is kept, and apart from that the upper concave envelope
    over size. full_begin, full_end, begin, end: (rows, groups) of the options and of the envelope, counted
    from the row's first; the envelope of a group that is no chain is all of it. Returns the number written.
    """
    writing = len(column) > 0
    groups = len(group_begin) - 1
    hull_at, hull_x, hull_y = (
        np.empty(value.shape[1], np.int64),
        np.empty(value.shape[1]),
        np.empty(value.shape[1]),
    )
    place = 0
    for j in range(len(value)):
        first = place
        for g in range(groups):
            full_begin[j, g] = place - first
            most = -np.inf
            for i in range(group_begin[g], group_begin[g + 1]):
                c = by_group[i]
                if allowed[j, c] and (value[j, c] > most or not chain[g]):
                    most = value[j, c]
                    if writing:
                        column[place], gain[place] = c, most
                    place += 1
            full_end[j, g] = place - first
        for g in range(groups):
            begin[j, g], end[j, g] = full_begin[j, g], full_end[j, g]
            if not chain[g]:
                continue
            points = 0
            most = -np.inf
            for i in range(group_begin[g], group_begin[g + 1]):
                c = by_group[i]
                if not allowed[j, c] or value[j, c] <= most:
                    continue
                most = value[j, c]
                x = size[c]
                if points and hull_x[points - 1] == x:
                    points -= 1
                while points > 1 and (most - hull_y[points - 2]) * (hull_x[points - 1] - hull_x[points - 2]) >= (
                    hull_y[points - 1] - hull_y[points - 2]
                ) * (x - hull_x[points - 2]):
                    points -= 1
                hull_at[points], hull_x[points], hull_y[points] = c, x, most
                points += 1
            if points < full_end[j, g] - full_begin[j, g]:
                begin[j, g] = place - first
                end[j, g] = begin[j, g] + points
                if writing:
                    for i in range(points):
                        column[place + i], gain[place + i] = hull_at[i], hull_y[i]
                place += points
        counts[j] = place - first
    return place


class OptionPool:
    """Flat arrays `column` and `value`; blocks are handed out in powers of two and used again."""

    def __init__(self) -> None:
        self.column = np.zeros(1024, np.int32)
        self.value = np.zeros(1024)
        self._end = 0
        self._free: dict[int, list[int]] = {}

    def reserve(self, count: int) -> int:
        """Start of a block that holds `count` options."""
        size = _block(count)
        free = self._free.get(size)
        if free:
            return free.pop()
        start = self._end
        self._end += size
        if self._end > len(self.column):
            room = max(self._end, 2 * len(self.column))
            self.column = np.concatenate([self.column, np.zeros(room - len(self.column), np.int32)])
            self.value = np.concatenate([self.value, np.zeros(room - len(self.value))])
        return start

    def release(self, start: int, count: int) -> None:
        self._free.setdefault(_block(count), []).append(start)

    @staticmethod
    def same_block(before: Ints, now: Ints) -> Flags:
        """(rows,) whether so many options go where so many went before."""
        bits = [np.frexp(np.maximum(count - 1, 7).astype(float))[1] for count in (before, now)]
        return np.asarray(bits[0] == bits[1])

    @property
    def gib(self) -> float:
        return (self.column.nbytes + self.value.nbytes) / 2**30


def _block(count: int) -> int:
    return 1 << max(count - 1, 7).bit_length()
