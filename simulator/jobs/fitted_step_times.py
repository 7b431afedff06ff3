"""Step times from a fitted throughput model, for any placement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...estimators.throughput import ThroughputParams, step_time_s
from .step_times import Shape, StepTime


@dataclass(eq=False)
class FittedStepTimes:
    """Step times of one model on one GPU type, for local batch sizes from `low` to `high`."""

    params: ThroughputParams
    low: int
    high: int

    def sizes(self, shape: Shape) -> tuple[float, float]:
        """Return the smallest and largest local batch size, the same for every shape."""
        return float(self.low), float(self.high)

    def measured(self, shape: Shape) -> bool:
        return True

    def at(self, shape: Shape, local_bsz: float) -> StepTime:
        """Return the step time of a shape, for any local batch size."""
        step = float(step_time_s(self.params, len(shape), sum(shape), local_bsz, 0, max(shape)))
        # One more pass costs compute time only.
        passes = float(step_time_s(self.params, len(shape), sum(shape), local_bsz, 1, max(shape))) - step
        return StepTime(step, max(step - passes, 0.0))

    def samples(self) -> Iterator[tuple[Shape, int]]:
        """Yield common shapes with six local batch sizes from `low` to `high`."""
        shapes: list[Shape] = [(1,), (2,), (4,), (8,), (2, 2), (4, 4), (8, 8), (4, 4, 4, 4)]
        for shape in shapes:
            for size in np.unique(np.geomspace(self.low, self.high, 6).round()).tolist():
                yield shape, int(size)
