"""Learning curves of jobs of a trace: a metric ends them, and policies are told of it as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core.training_config import MetricTarget
from ...estimators.curves.curve import Curve
from .workload import TraceCurve, Workload

METRIC = "metric"


def target_of(curve: TraceCurve) -> MetricTarget:
    """Return the target at which a job ends."""
    if curve.rises:
        return MetricTarget(metric=METRIC, at_least=curve.target)
    return MetricTarget(metric=METRIC, at_most=curve.target)


def points_of(curve: TraceCurve, epochs: int) -> Curve:
    """Return the curve up to an epoch, by epochs."""
    return Curve.of(zip(range(1, epochs + 1), curve.values[:epochs], strict=False))


@dataclass(frozen=True)
class CurveRule:
    """Which jobs a metric ends, and when (UniSched, section VI-A).

    part: of the jobs, from 0 to 1. of_best: each target is the best value, or such a part of it, as likely.
    """

    part: float = 0.2
    of_best: float = 0.99

    def __post_init__(self) -> None:
        if not (0 <= self.part <= 1 and 0 < self.of_best <= 1):
            raise ValueError(f"curves: part {self.part} and of_best {self.of_best} are not accepted; 0 to 1 is")


def made_up_curves() -> tuple[TraceCurve, ...]:
    """Return curves of 20 to 60 epochs, three runs each of four scripts, which differ in how fast they learn.

    They are an accuracy that rises by a power of the epoch, one that rises and levels off, one that jumps where
    the learning rate drops, and a loss that falls.
    """
    found = list[TraceCurve]()
    for run, pace in enumerate((0.8, 1.0, 1.25)):
        epochs = np.arange(1, (20, 40, 60)[run] + 1, dtype=float)
        half = len(epochs) / 2
        slow, fast = 0.92 - 0.6 * epochs ** (-0.6 * pace), 0.8 * (1 - np.exp(-pace * epochs / 8))
        jumps = 0.7 - 0.4 * epochs ** (-0.7 * pace) + 0.2 * (epochs > half) * (1 - 0.5 ** (epochs - half))
        falls = 0.3 + 2.0 * epochs ** (-0.5 * pace)
        shapes = (("power", slow, True), ("levels", fast, True), ("jumps", jumps, True), ("loss", falls, False))
        for name, values, rises in shapes:
            best = float(values.max() if rises else values.min())
            found.append(TraceCurve(tuple(values.tolist()), best, rises, name))
    return tuple(found)


def with_curves(workload: Workload, known: Sequence[TraceCurve], rule: CurveRule, seed: int) -> Workload:
    """Return the jobs of which some have one of these curves. Each takes as long until its target as before.

    Jobs of one curve count as runs of one script. `seed`: of all that is drawn.
    """
    if not known or not rule.part:
        return workload
    random = np.random.default_rng([seed, 67])
    curves, names = list(workload.curves), list(workload.names)
    for job in np.flatnonzero(random.random(len(workload)) < rule.part).tolist():
        chosen = known[int(random.integers(len(known)))]
        best = max(chosen.values) if chosen.rises else min(chosen.values)
        short = 1.0 - (rule.of_best if random.random() < 0.5 else 1.0)
        curves[job] = replace(chosen, target=best - (short if chosen.rises else -short) * abs(best))
        names[job] = chosen.name or names[job]
    return replace(workload, curves=tuple(curves), names=tuple(names))
