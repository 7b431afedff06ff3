"""Scales of rows and columns that bring their largest entries, then their lengths, near 1; kept current.

Ruiz' equilibration, then a few passes on Euclidean lengths, which measured better than either alone on Netlib's.
"""

from __future__ import annotations

import math

import numpy as np

from ...compiled import kernel
from .kernels import SparseColumns
from .storage import OWN, Storage

LARGEST_PASSES, LENGTH_PASSES = 10, 3
WHOLE = 0.3  # share of stale columns from which all are scaled anew


@kernel
def _equilibrate(
    sparse: SparseColumns,
    stale: np.ndarray,
    kind: np.ndarray,
    row_scale: np.ndarray,
    column_scale: np.ndarray,
    everything: bool,
) -> None:
    """Divide, pass by pass, by the roots of the sizes of rows and columns; only open rows change their scale.

    Open are rows of kind OWN that stale columns have entries in, or all.
    """
    start, end, entry_row, entry_value = sparse
    rows = len(row_scale)
    count = 0
    for column in range(len(start)):
        if stale[column]:
            count += 1
    if count > WHOLE * len(start):
        everything = True
    columns, is_open = np.empty(len(start) if everything else count, np.int64), np.full(rows, everything)
    place = 0
    for column in range(len(start)):
        if everything or stale[column]:
            columns[place] = column
            column_scale[column] = 1.0
            place += 1
            for k in range(start[column], end[column]):
                is_open[entry_row[k]] |= kind[entry_row[k]] == OWN
        stale[column] = False
    for row in range(rows):
        if is_open[row]:
            row_scale[row] = 1.0
    size = np.zeros(rows)
    for i in range(LARGEST_PASSES + LENGTH_PASSES):
        by_length = i >= LARGEST_PASSES
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
        for row in range(rows):
            if is_open[row] and size[row] > 0.0:
                row_scale[row] /= math.sqrt(math.sqrt(size[row]))


def rescale(storage: Storage, everything: bool) -> None:
    """Make the scales of stale columns, and of the rows that are theirs alone, anew; shared rows keep theirs."""
    top, rows = storage.columns.top, storage.rows.top
    of_rows = storage.kind[:rows], storage.row_scale[:rows]
    _equilibrate(storage.sparse, storage.stale[:top], *of_rows, storage.column_scale, everything)
