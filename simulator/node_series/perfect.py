"""The most nodes that could be off with perfect foresight and few wake-ups: a bound for every rule. Pure."""

from __future__ import annotations

import numpy as np

from ...estimators.node_series import Floats, NodeSeries


def most_off(series: NodeSeries, wakes: int) -> Floats:
    """Return (wakes + 1,) the most nodes off in the mean with 0, 1, … wake-ups; unknown slots need no more nodes.

    Between two wake-ups the nodes awake never become more. So they are at best the most that still run until the
    next one. The best moments of wake-ups are found exactly, by dynamic programming.
    """
    running, total = series.filled, series.filled_total
    slots = len(series)
    # cost[i, j]: nodes awake, summed over the slots from i on and before j, without a wake-up within.
    cost = np.full((slots + 1, slots + 1), np.inf)
    for end in range(1, slots + 1):
        most = np.maximum.accumulate(running[:end][::-1])
        cost[:end, end] = np.cumsum(most)[::-1]
    best, found = np.full(slots + 1, np.inf), []
    best[0] = 0.0
    for _ in range(wakes + 1):
        best = (best[:, None] + cost).min(axis=0)
        best[0] = 0.0
        found.append((total.sum() - best[slots]) / slots)
    return np.array(found)
