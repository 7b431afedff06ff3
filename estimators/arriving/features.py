"""What tells whether jobs of a team arrive within a window: 14 numbers of the time before it. Pure.

Source: "Anticipatory Resource Allocation for ML Training", Table 9. Windows of the past that would reach beyond
now end at now. A job that is past its expected end counts as about to end.
"""

from __future__ import annotations

import numpy as np

from .past import Floats, TeamPast

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
    columns = []
    for _, period_s in PERIODS:
        for count in SEASONS:
            since_s = at_s - count * period_s
            columns.append(_count(past.submitted_s, since_s, np.minimum(at_s, since_s + window_s)))
    for times in (past.submitted_s, past.ended_s):
        until = np.searchsorted(times, at_s, side="right")
        columns += [until - np.searchsorted(times, at_s - span * window_s, side="left") for span in SPANS]
    running = _within(past.began_s, past.left_s, at_s)
    due = _within(np.maximum(past.began_s, past.due_s - window_s), past.left_s, at_s)
    return np.column_stack([*columns, due, running - due]).astype(float)


def arrive(past: TeamPast, at_s: Floats, window_s: float) -> np.ndarray:
    """Return (moments,) whether a job was submitted after each moment and within the window."""
    return _count(past.submitted_s, at_s, at_s + window_s) > 0


def _count(times: Floats, after_s: Floats, until_s: Floats) -> np.ndarray:
    """Return (moments,) how many times lie after a moment and up to another."""
    return np.searchsorted(times, until_s, side="right") - np.searchsorted(times, after_s, side="right")


def _within(from_s: Floats, until_s: Floats, at_s: Floats) -> np.ndarray:
    """Return (moments,) how many spans hold a moment; the end of a span is no part of it."""
    real = from_s < until_s
    begun = np.searchsorted(np.sort(from_s[real]), at_s, side="right")
    return begun - np.searchsorted(np.sort(until_s[real]), at_s, side="right")
