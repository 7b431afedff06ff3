"""Scales of rows and columns that bring the largest entry of each near 1 (Ruiz), kept current change by change."""

from __future__ import annotations

import numpy as np
from numba import njit

from .storage import OWN, Storage, ranges

PASSES = 10
WHOLE = 0.3  # share of stale columns from which all are scaled anew


@njit(cache=True, nogil=True)
def _ruiz(
    start: np.ndarray,
    end: np.ndarray,
    entry_row: np.ndarray,
    entry_value: np.ndarray,
    columns: np.ndarray,
    is_open: np.ndarray,
    row_scale: np.ndarray,
    column_scale: np.ndarray,
    passes: int,
) -> None:
    """Divide, `passes` times, by the roots of the largest entries; only rows that are open change their scale."""
    largest = np.zeros(len(row_scale))
    for j in columns:
        column_scale[j] = 1.0
    for _ in range(passes):
        largest[:] = 0.0
        for j in columns:
            most = 0.0
            for k in range(start[j], end[j]):
                size = abs(entry_value[k]) * row_scale[entry_row[k]] * column_scale[j]
                most = max(most, size)
                largest[entry_row[k]] = max(largest[entry_row[k]], size)
            if most > 0.0:
                column_scale[j] /= np.sqrt(most)
        for i in range(len(row_scale)):
            if is_open[i] and largest[i] > 0.0:
                row_scale[i] /= np.sqrt(largest[i])


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
    _ruiz(
        storage.start,
        storage.end,
        storage.entry_row,
        storage.entry_value,
        columns,
        is_open,
        storage.row_scale[:rows],
        storage.column_scale,
        PASSES,
    )
