"""COpter's shim for GPUs: turns the LP's fractions into a configuration for each job (section 4.4.1)."""

from __future__ import annotations

import numpy as np

from ...allocation.listing import Entries
from ...compiled import kernel


def largest_weights(
    entries: Entries, weight: np.ndarray, rows: int, usage: np.ndarray, capacity: np.ndarray
) -> np.ndarray:
    """Return (rows,) columns, -1 for none.

    Jobs pick in descending order of weight in the LP's solution. Each picks its configuration of most weight that
    fits in what is left.
    """
    heavy = np.flatnonzero(weight > 1e-6)
    heavy = heavy[np.lexsort((heavy, -weight[heavy]))]
    return _fill(entries.row[heavy], entries.column[heavy], rows, usage.T.copy(), capacity)


@kernel
def _fill(row: np.ndarray, column: np.ndarray, rows: int, usage: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Return (rows,) the first column of each row that fits in what is left, for a usage of (columns, limits)."""
    choice, room = np.full(rows, -1, np.int64), capacity.copy()
    for k in range(len(row)):
        used = usage[column[k]]
        if choice[row[k]] < 0 and (used <= room + 1e-9).all():
            choice[row[k]] = column[k]
            room -= used
    return choice
