"""Scales of rows and columns that bring their largest entries, then their lengths, near 1; kept current.

Ruiz' equilibration, then a few passes on Euclidean lengths, which measured better than either alone on Netlib's.
"""

from __future__ import annotations

import math

import numpy as np

from ..compiled import kernel
from .kernels import SparseColumns
from .storage import OWN, Storage, ranges

LARGEST_PASSES, LENGTH_PASSES = 10, 3
WHOLE = 0.3  # share of stale columns from which all are scaled anew


@kernel
def _equilibrate(
    sparse: SparseColumns,
    columns: np.ndarray,
    is_open: np.ndarray,
    row_scale: np.ndarray,
    column_scale: np.ndarray,
    largest_passes: int,
    length_passes: int,
) -> None:
    """Divide, pass by pass, by the roots of the sizes of rows and columns; only open rows change their scale."""
    start, end, entry_row, entry_value = sparse
    size = np.zeros(len(row_scale))
    for j in columns:
        column_scale[j] = 1.0
    for i in range(largest_passes + length_passes):
        by_length = i >= largest_passes
        size[:] = 0.0
        for j in columns:
            mine = 0.0
            for k in range(start[j], end[j]):
                square = (entry_value[k] * row_scale[entry_row[k]] * column_scale[j]) ** 2
                if by_length:
                    mine += square
                    size[entry_row[k]] += square
                else:
                    mine = max(mine, square)
                    size[entry_row[k]] = max(size[entry_row[k]], square)
            if mine > 0.0:
                column_scale[j] /= math.sqrt(math.sqrt(mine))
        for row in range(len(row_scale)):
            if is_open[row] and size[row] > 0.0:
                row_scale[row] /= math.sqrt(math.sqrt(size[row]))


def rescale(storage: Storage, everything: bool) -> None:
    """Make the scales of stale columns, and of the rows that are theirs alone, anew; shared rows keep theirs."""
    top, rows = storage.columns.top, storage.rows.top
    stale = np.array(list(storage.stale.items()), dtype=np.int64).reshape(-1, 2)
    columns = ranges(stale[:, 0], stale[:, 1])
    storage.stale.clear()
    if everything or len(columns) > WHOLE * top:
        columns, is_open = np.arange(top), np.ones(rows, dtype=bool)
    else:
        is_open = np.zeros(rows, dtype=bool)
        held = ranges(storage.start[columns], storage.end[columns] - storage.start[columns])
        touched = storage.entry_row[held]
        is_open[touched] = storage.kind[touched] == OWN
    storage.row_scale[:rows][is_open] = 1.0
    _equilibrate(
        storage.sparse,
        columns,
        is_open,
        storage.row_scale[:rows],
        storage.column_scale,
        LARGEST_PASSES,
        LENGTH_PASSES,
    )
