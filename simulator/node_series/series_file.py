"""A series of node counts from a CSV file: a row for each look of a monitor, with `time`, `active` and `total`."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from ...estimators.node_series import NodeSeries, series_of_samples
from ..traces.tables import instants, numbers, read_rows

TIME, ACTIVE, TOTAL = "time", "active", "total"  # as HeliosArtifact's file of Philly calls them


def read_series(path: Path) -> NodeSeries:
    """Return how many nodes had a job, by ten-minute maxima. Warn, in one sentence, of slots that are unknown.

    `time` is `YYYY-MM-DD HH:MM:SS`; `active` are nodes with a job, of `total`.

    Raises:
        ValueError: in one sentence with the line, for a file that cannot be read or lacks a column, for times that
            do not ascend, and for counts that are no whole numbers of at least 0 or above the total.
    """
    rows = read_rows(path, (TIME, ACTIVE, TOTAL))
    at = instants(path, rows, TIME)
    active = numbers(path, rows, ACTIVE, least=0, whole=True)
    total = numbers(path, rows, TOTAL, least=0, whole=True)
    for late in np.flatnonzero(np.diff(at) <= 0)[:1] + 1:
        raise ValueError(
            f"{path}: line {rows[late].line}: time {rows[late][TIME]} is not accepted, must be after "
            f"{rows[late - 1][TIME]} of the row before"
        )
    for above in np.flatnonzero(active > total)[:1]:
        raise ValueError(
            f"{path}: line {rows[above].line}: active {active[above]:.0f} is not accepted, must be at most the "
            f"{total[above]:.0f} of total"
        )
    found = series_of_samples(at, active.astype(np.int64), total.astype(np.int64))
    if unknown := int((~found.known).sum()):
        warnings.warn(
            f"{path}: {unknown} of {len(found)} times of ten minutes are unknown, as there is no row, or as 0 ran "
            "right after many: what ran before is taken to go on",
            stacklevel=2,
        )
    return found
