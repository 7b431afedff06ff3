"""What earlier runs of the same script say of when a metric reaches its target. Pure.

They foresee what no smooth curve can: accuracy jumps where the learning rate drops.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.log_normal import LogNormal
from .curve import Curve, Floats

# Chosen on 34 measured curves (`docs/results/learning-curves.md`).
RECENT = 5  # own points that are compared with those of an earlier run
DOUBTS = 20  # points without a difference that stand beside them, since a difference is seldom there to stay
PRIOR_SIGMA = 0.11  # deviation of the log of when a target is reached that one run alone is taken to have
MOST_APART = 0.3  # of the range of an earlier run: one that differs more foretells nothing


def left_by_earlier(
    own: Curve, earlier: Sequence[Curve], value: float, sign: float, now: float
) -> tuple[float, float, float] | None:
    """Return (mean, low, high) of the progress from `now` until a metric reaches a value; None: no run tells.

    Args:
        sign: 1 where the metric rises to the value, -1 where it falls.
    """
    found = [at for run in earlier if (at := _reached(own, run, value, sign, now)) is not None]
    return LogNormal.of(found, PRIOR_SIGMA).left(now) if found else None


def _reached(own: Curve, run: Curve, value: float, sign: float, now: float) -> float | None:
    """Return where a run would have reached a value if it had gone as this job does; None: it went otherwise.

    A run that never came so far tells where it was best.
    """
    if len(run) < 2:
        return None
    at, values = np.array(run.at), sign * np.array(run.values)
    difference = _difference(own, at, values, sign)
    if difference is None:
        return None
    above = np.flatnonzero((values + difference >= sign * value) & (at > now))
    best = at[above[0]] if len(above) else at[values.argmax()]
    return max(float(best), now + run.spacing)


def _difference(own: Curve, at: Floats, values: Floats, sign: float) -> float | None:
    """Return how much higher this job is than a run at the same progress; None: they have nothing in common."""
    mine = np.array(own.at)
    both = np.flatnonzero((mine >= at[0]) & (mine <= at[-1]))[-RECENT:]
    apart = sign * np.array(own.values)[both] - np.interp(mine[both], at, values)
    if len(both) == RECENT and np.median(np.abs(apart)) > MOST_APART * float(values.max() - values[0]):
        return None
    return float(apart.sum()) / (len(both) + DOUBTS)
