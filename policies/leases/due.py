"""The deadlines of the jobs of a round as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..contract.round import JobColumns

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Due:
    """by_s: (jobs,) the next deadline that can still be met, on the clock of the round; inf: there is none.

    has_deadline: (jobs,) whether there is one, or was.
    """

    by_s: Floats
    has_deadline: NDArray[np.bool_]


def due_of(columns: JobColumns, now: float, needed_s: Floats) -> Due:
    """Return the deadlines of jobs that still need so many seconds each, if they ran from now on; nan: unknown."""
    by_s, has = np.full(len(columns.ids), np.inf), columns.has_deadline
    if columns.rewards is None:
        return Due(by_s, has)
    ends_s = now + np.nan_to_num(needed_s, nan=0.0) - columns.submitted_s
    for i in np.flatnonzero(has).tolist():
        by_s[i] = columns.submitted_s[i] + columns.rewards[i].next_s(float(ends_s[i]))
    return Due(by_s, has)
