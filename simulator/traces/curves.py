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
