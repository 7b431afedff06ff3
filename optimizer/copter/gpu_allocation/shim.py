"""COpter's shim for GPUs: from the LP's fractions to a configuration for each job (section 4.4.1)."""

from __future__ import annotations

import numpy as np

from ...allocation.listing import Entries
from ...compiled import kernel


def largest_weights(
    entries: Entries, weight: np.ndarray, rows: int, usage: np.ndarray, capacity: np.ndarray
) -> np.ndarray:
    """(rows,) columns, -1: none.

    Jobs, those of the largest weight first, pick the configuration of the highest weight in the LP's solution that
    fits what is left.
    """
    heavy = np.flatnonzero(weight > 1e-6)
    heavy = heavy[np.lexsort((heavy, -weight[heavy]))]
    return _fill(entries.row[heavy], entries.column[heavy], rows, usage.T.copy(), capacity)


@kernel
def _fill(row: np.ndarray, column: np.ndarray, rows: int, usage: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """What each row picks where the first that fits is taken; usage: (columns, limits)."""
    choice, room = np.full(rows, -1, np.int64), capacity.copy()
    for k in range(len(row)):
        used = usage[column[k]]
        if choice[row[k]] < 0 and (used <= room + 1e-9).all():
            choice[row[k]] = column[k]
            room -= used
    return choice
