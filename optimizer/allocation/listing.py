"""The options of rows, one behind another, for solvers that read all of them; compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from .options import FULL_BEGIN, FULL_END
from .rows import Flags, Floats, Ints


@kernel
def list_options(
    slots: Ints,
    begin: NDArray[np.int32],
    end: NDArray[np.int32],
    offset: Floats,
    scale: Floats,
    stay_column: Ints,
    stay_gain: Floats,
    column: NDArray[np.int32],
    value: Floats,
    barred: Flags,
    out_row: Ints,
    out_column: Ints,
    out_gain: Floats,
) -> int:
    """Row i's options are those of the pools at begin[i] .. end[i] and where it may stay; returns their number.

    begin, end: (rows,); offset, scale, stay_column, stay_gain: by slot. Written by rising row, and column within.
    """
    count = 0
    for i in range(len(slots)):
        slot, first = slots[i], count
        stays = stay_column[slot]
        for k in range(begin[i], end[i] + 1):
            if k < end[i]:
                c, gain = np.int64(column[k]), offset[slot] + scale[slot] * value[k]
                if c == stays:
                    gain, stays = max(gain, stay_gain[slot]), -1
            else:
                c, gain = stays, stay_gain[slot]
            if c < 0 or barred[c]:
                continue
            at = count
            while at > first and out_column[at - 1] > c:
                out_column[at], out_gain[at] = out_column[at - 1], out_gain[at - 1]
                at -= 1
            out_row[count], out_column[at], out_gain[at] = i, c, gain
            count += 1
    return count


@kernel
def lists(ranges: NDArray[np.int32], column: NDArray[np.int32], wanted: Ints) -> Flags:
    """(rows,) whether the row's options hold the wanted column, as they all hold -1.

    ranges: (rows, groups, 4), of which the last two are where the options begin and end.
    """
    found = wanted < 0
    for i in range(len(wanted)):
        for g in range(ranges.shape[1]):
            for k in range(ranges[i, g, FULL_BEGIN], ranges[i, g, FULL_END]):
                found[i] |= column[k] == wanted[i]
    return found


@kernel
def differ(
    slots: Ints,
    start: Ints,
    ranges: NDArray[np.int32],
    column: NDArray[np.int32],
    new_ranges: NDArray[np.int32],
    new_counts: Ints,
    new_column: NDArray[np.int32],
) -> Flags:
    """(rows,) whether options are of other columns than before, or there were none; start: -1 of new rows.

    ranges: (slots, groups, 4), of which the last two are where the options begin and end; new_ranges: (rows,
    groups, 4), counted from the row's first of new_counts in new_column.
    """
    found = start < 0
    first = 0
    for i in range(len(start)):
        slot = slots[i]
        for g in range(ranges.shape[1]):
            size = ranges[slot, g, FULL_END] - ranges[slot, g, FULL_BEGIN]
            if found[i] or size != new_ranges[i, g, FULL_END] - new_ranges[i, g, FULL_BEGIN]:
                found[i] = True
                break
            old, new = ranges[slot, g, FULL_BEGIN], first + new_ranges[i, g, FULL_BEGIN]
            for k in range(size):
                found[i] |= column[old + k] != new_column[new + k]
        first += new_counts[i]
    return found
