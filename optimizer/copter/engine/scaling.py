"""Keeps scales of rows and columns that bring their largest entries, then their lengths, near 1.

Ruiz' equilibration is followed by a few passes on Euclidean lengths. On Netlib's programs that measured better
than either alone.
"""

from __future__ import annotations

import math

import numpy as np

from ...compiled import kernel
from .kernels import SparseColumns
from .storage import OWN, Storage

LARGEST_PASSES, LENGTH_PASSES = 10, 3
WHOLE = 0.3  # part of stale columns above which all columns are scaled anew


@kernel
def _equilibrate(
    sparse: SparseColumns,
    stale: np.ndarray,
    kind: np.ndarray,
    row_scale: np.ndarray,
    column_scale: np.ndarray,
    everything: bool,
) -> None:
    """Divide rows and columns by the roots of their sizes, pass by pass. Only open rows change their scale.

    Rows of kind OWN in which stale columns have entries are open. With `everything` all rows are.
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
            column_size = 0.0
            for k in range(start[j], end[j]):
                square = (entry_value[k] * row_scale[entry_row[k]] * column_scale[j]) ** 2
                if by_length:
                    column_size += square
                    size[entry_row[k]] += square
                else:
                    column_size = max(column_size, square)
                    size[entry_row[k]] = max(size[entry_row[k]], square)
            if column_size > 0.0:
                column_scale[j] /= math.sqrt(math.sqrt(column_size))
        for row in range(rows):
            if is_open[row] and size[row] > 0.0:
                row_scale[row] /= math.sqrt(math.sqrt(size[row]))


def rescale(storage: Storage, everything: bool) -> None:
    """Compute scales of stale columns and of their own rows anew. Shared rows keep theirs."""
    top, rows = storage.columns.top, storage.rows.top
    of_rows = storage.kind[:rows], storage.row_scale[:rows]
    _equilibrate(storage.sparse, storage.stale[:top], *of_rows, storage.column_scale, everything)
