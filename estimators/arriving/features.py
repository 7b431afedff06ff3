"""What tells whether jobs of a team arrive within a window: 14 numbers of the time before it. Pure.

Source: "Anticipatory Resource Allocation for ML Training", Table 9. Windows of the past that would reach beyond
now end at now. A job that is past its expected end counts as about to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .past import Floats, TeamPast

Counts = NDArray[np.int64]
HOUR_S, DAY_S = 3600.0, 86_400.0
PERIODS, SEASONS = (("hour", HOUR_S), ("day", DAY_S)), (1, 2, 3)
SPANS = (1, 10, 100)  # windows that recent counts look back on
PERIODIC = tuple(f"{count}_{name}s_ago" for name, _ in PERIODS for count in SEASONS)
ARRIVALS = tuple(f"arrivals_{span}" for span in SPANS)
ENDS = tuple(f"ends_{span}" for span in SPANS)
DUE = ("due", "due_later")
NAMES = (*PERIODIC, *ARRIVALS, *ENDS, *DUE)
# The groups of the paper, each with all before it.
SETS = {
    "periodic": PERIODIC,
    "arrivals": (*PERIODIC, *ARRIVALS),
    "ends": (*PERIODIC, *ARRIVALS, *ENDS),
    "due": NAMES,
}


def features(past: TeamPast, at_s: Floats, window_s: float) -> Floats:
    """Return (moments, features of `NAMES`); the row of a moment goes by what was known by then alone."""
    began_s = np.array([-count * period_s for _, period_s in PERIODS for count in SEASONS])
    ends_s = np.minimum(began_s + window_s, 0.0)
    spans_s = -window_s * np.array(SPANS)
    last = 2 * len(began_s)  # the column of now
    known = _by(past.submitted_s, at_s, np.concatenate([began_s, ends_s, [0.0]]), "right")
    columns = [known[:, len(began_s) : last] - known[:, : len(began_s)]]
    columns.append(known[:, last:] - _by(past.submitted_s, at_s, spans_s, "left"))
    columns.append(_by(past.ended_s, at_s, np.zeros(1), "right") - _by(past.ended_s, at_s, spans_s, "left"))
    running = _within(past.began_s, past.left_s, at_s)
    due = _within(np.maximum(past.began_s, past.due_s - window_s), past.left_s, at_s)
    return np.concatenate([*columns, np.array([due, running - due]).T], axis=1).astype(float)


def only(rows: Floats, names: Sequence[str]) -> Floats:
    """Return rows in which features other than these tell nothing."""
    return np.where([name in names for name in NAMES], rows, 0.0)


def arrive(past: TeamPast, at_s: Floats, window_s: float) -> np.ndarray:
    """Return (moments,) whether a job was submitted after each moment and within the window."""
    counts = _by(past.submitted_s, at_s, np.array([0.0, window_s]), "right")
    return counts[:, 1] > counts[:, 0]


def _by(times: Floats, at_s: Floats, beside_s: Floats, side: Literal["left", "right"]) -> Counts:
    """Return (moments, offsets) how many times lie up to an offset from each moment; left: before it."""
    return np.searchsorted(times, at_s[:, None] + beside_s, side=side)


def _within(from_s: Floats, until_s: Floats, at_s: Floats) -> Counts:
    """Return (moments,) how many spans hold a moment; the end of a span is no part of it."""
    if not len(from_s):
        return np.zeros(len(at_s), np.int64)
    real = from_s < until_s
    begun = np.searchsorted(np.sort(from_s[real]), at_s, side="right")
    return begun - np.searchsorted(np.sort(until_s[real]), at_s, side="right")
