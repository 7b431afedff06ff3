"""When a job's metric will reach its target: by earlier runs of its script, else by its own curve. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ...core.expected import ExpectedSource
from ...core.training_config import MetricTarget
from .curve import Curve, Floats
from .earlier import left_by_earlier
from .ensemble import LEAST_POINTS, crossing

MOST_AHEAD = 200  # evaluations to come that are looked at; of more, at a growing distance
_NEWER = 1 / 3  # of the points, that are compared with as many of the oldest


@dataclass(frozen=True)
class Reaching:
    """Progress still to be made until the target is reached; `low` to `high` is a band of 80 %.

    source: earlier runs, its own curve, or the rest of the training at the measured speed.
    basis: what it goes by, as "its own curve of accuracy"; "": its source says enough.
    why: a sentence on why it plans with the rest of the training; "": it does not.
    """

    left: float
    low: float
    high: float
    source: ExpectedSource = ExpectedSource.MEASURED_SPEED
    basis: str = ""
    why: str = ""

    def after(self, made: float) -> Reaching:
        """Return it after some more progress without a new evaluation."""
        left, low, high = (max(part - made, 0.0) for part in (self.left, self.low, self.high))
        return replace(self, left=left, low=low, high=high)


@lru_cache(maxsize=4096)  # rounds ask again and again, evaluations are few
def since_last(target: MetricTarget, own: Curve, end: float, earlier: tuple[Curve, ...]) -> Reaching:
    """Return what `until_reached` said when the metric was measured last; before that, at the start."""
    return until_reached(target, own, own.at[-1] if own.at else 0.0, end, earlier)


def until_reached(
    target: MetricTarget, own: Curve, now: float, end: float, earlier: Sequence[Curve] = ()
) -> Reaching:
    """Return how much progress a job makes until its metric reaches the target, at most up to its end.

    Args:
        own: the job's curve. `earlier`: those of the same metric in runs of the same script that have ended.
        now, end: the progress that was made, and that of the whole training; as positions of the curves.
    """
    most, name = max(end - now, 0.0), target.metric
    rises = target.at_least is not None
    value, sign = (target.at_least, 1.0) if target.at_least is not None else (target.at_most or 0.0, -1.0)
    if (known := left_by_earlier(own, earlier, value, sign, now)) is not None:
        runs = "an earlier run" if len(earlier) == 1 else f"{len(earlier)} earlier runs"
        mean, low, high = (min(part, most) for part in known)
        return Reaching(mean, low, high, ExpectedSource.EARLIER_RUNS, f"{name} in {runs}")
    if why := _no_curve(name, own, sign):
        return Reaching(most, 0.0, most, why=f"{why}, so it plans with all of its training")
    cleaned = own.without_spikes()
    step = own.spacing
    ahead = _ahead(now, end, step)
    if not len(ahead):
        return Reaching(most, 0.0, most)
    values, goal = _scaled(np.array(cleaned.values), value, rises)
    found = crossing(np.array(cleaned.at) / step, values, ahead / step, goal)
    if found is None or found.at == np.inf:
        what = "follows no known curve" if found is None else f"is not expected to reach {value:g} by its end"
        low = most if found is None or found.low == np.inf else min(found.low * step - now, most)
        return Reaching(most, low, most, why=f"{name} {what}, so it plans with all of its training")
    mean, low, high = (min(max(part * step - now, 0.0), most) for part in (found.at, found.low, found.high))
    return Reaching(mean, low, high, ExpectedSource.LEARNING_CURVE, f"its own curve of {name}")


def _no_curve(name: str, own: Curve, sign: float) -> str:
    """Return why nothing can be told by a curve, as a part of a sentence; "": it can be."""
    if len(own) < LEAST_POINTS:
        points = "1 point" if len(own) == 1 else f"{len(own)} points"
        return f"{name} has {points} and a curve needs {LEAST_POINTS}"
    values = sign * np.array(own.values)
    if np.ptp(values) <= 1e-9 * max(abs(values[0]), 1e-9):
        return f"{name} has not changed"
    part = max(round(len(values) * _NEWER), 1)
    if np.median(values[-part:]) <= np.median(values[:part]):
        return f"{name} does not {'rise' if sign > 0 else 'fall'}"
    return ""


def _ahead(now: float, end: float, step: float) -> Floats:
    """Return the positions of evaluations to come."""
    count = int(np.floor((end - now) / step + 1e-6))
    if count <= 0:
        return np.array([end]) if end > now else np.zeros(0)
    steps: Floats = np.linspace(1, count, count)
    return now + step * (steps if count <= MOST_AHEAD else np.geomspace(1.0, count, MOST_AHEAD))


def _scaled(values: Floats, value: float, rises: bool) -> tuple[Floats, float]:
    """Return values and target on a scale of about 0..1 on which the metric rises, as published."""
    low, high = min(float(values.min()), value), max(float(values.max()), value)
    if rises:
        base, size = (0.0, high) if low >= 0 else (low, high - low)
        if low >= 0 and high <= 1:
            size = 1.0
        return (values - base) / size, (value - base) / size
    start = float(values[0])
    size = start if low >= 0 and start > 0 else high - low
    return (start - values) / size, (start - value) / size
