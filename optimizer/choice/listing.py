"""The options of rows, one behind another, for solvers that read all of them; compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from .rows import Flags, Floats, Ints


@kernel
def list_options(
    slots: Ints,
    begin: Ints,
    end: Ints,
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
    """Row i's options are those of the pools at begin[i] .. end[i] and where it may stay; returns how many there are.

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
