"""The measured learning curves of the Sia artifact; read from beside the checkout, never committed."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

import numpy as np
from coadapt.core.training_config import MetricTarget
from coadapt.estimators.curves.curve import Curve
from coadapt.simulator.traces.workload import TraceCurve

from .harness import needs
from .measured_profiles import TRACES

MODELS = ("cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")  # BERT's have two epochs and count for nothing
FALL = ("deepspeech2", "yolov3")  # their metric is an error rate or a loss


@dataclass(frozen=True)
class MeasuredCurve:
    """One run: the metric after each of its epochs."""

    model: str
    batch_size: int
    values: np.ndarray

    @property
    def epochs(self) -> int:
        return len(self.values)

    @property
    def sign(self) -> int:
        return -1 if self.model in FALL else 1

    def target(self, part: float) -> MetricTarget:
        """Return the target that UniSched's jobs have: a part of the best value, 1 or 0.99."""
        best = float(self.sign * (self.sign * self.values).max())
        if self.sign < 0:
            return MetricTarget(metric="metric", at_most=best / part)
        return MetricTarget(metric="metric", at_least=best * part)

    def reached(self, target: MetricTarget) -> int:
        """Return the epoch, from 1 on, that first reaches a target."""
        return 1 + next(epoch for epoch, value in enumerate(self.values) if target.reached(value))

    def until(self, epoch: int) -> Curve:
        """Return the curve up to an epoch, by epochs."""
        return Curve.of(zip(range(1, epoch + 1), self.values[:epoch].tolist(), strict=True))


@cache
def measured_curves() -> tuple[MeasuredCurve, ...]:
    """Return the 34 curves of more than two epochs, by model and batch size."""
    found = []
    for model in MODELS:
        needs(TRACES / model)
        paths = (TRACES / model).glob("validation-*.csv")
        for path in sorted(paths, key=lambda path: int(path.stem.split("-")[1])):
            with path.open(newline="") as file:
                values = np.array([float(row["metric"]) for row in csv.DictReader(file)])
            found.append(MeasuredCurve(model, int(path.stem.split("-")[1]), values))
    return tuple(found)


def known_curves() -> tuple[TraceCurve, ...]:
    """Return the curves as simulated jobs have them; a model's are runs of one script."""
    found = []
    for run in measured_curves():
        best = float(run.sign * (run.sign * run.values).max())
        found.append(TraceCurve(tuple(run.values.tolist()), best, run.sign > 0, run.model))
    return tuple(found)
