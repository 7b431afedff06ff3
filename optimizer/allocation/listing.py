"""Lists the options of rows one behind another, for solvers that read all of them; compiled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from .options import Flags, Floats, Ints


@dataclass(frozen=True)
class Entries:
    """All options of some rows, sorted by row. `row` is the place of the row in the order asked for."""

    row: Ints
    column: Ints
    gain: Floats


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
    columns: int,
    out_row: Ints,
    out_column: Ints,
    out_gain: Floats,
) -> int:
    """Write the options of rows, sorted by row and column. Return their number.

    The options of row i are those of the pool from begin[i] to end[i], and staying where it is. Weights are by
    slot. `columns` is the number of columns per kind of row.
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
            c %= columns
            at = count
            while at > first and out_column[at - 1] > c:
                out_column[at], out_gain[at] = out_column[at - 1], out_gain[at - 1]
                at -= 1
            out_row[count], out_column[at], out_gain[at] = i, c, gain
            count += 1
    return count
