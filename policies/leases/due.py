"""The deadlines of the jobs of a round as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.deadline_answer import NOT_PLANNED, Planned
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


def planned(columns: JobColumns, due_s: Floats, by_s: Mapping[str, float] | None = None) -> dict[str, Planned]:
    """Return what a policy plans for jobs that have a deadline that can be met, or had one, by id.

    Args:
        due_s: (jobs,) the deadline that counts; inf: none does.
        by_s: by when jobs are planned to have ended, by id.
    """
    found: dict[str, Planned] = {}
    for i in np.flatnonzero(columns.has_deadline).tolist():
        job, given_up = columns.ids[i], bool(np.isinf(due_s[i]))
        at_s = None if by_s is None or given_up else by_s.get(job)
        found[job] = Planned(at_s, given_up) if given_up or at_s is not None else NOT_PLANNED
    return found
