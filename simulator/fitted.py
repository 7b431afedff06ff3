"""Applications that ship with the project: fitted step times and gradient noise."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..estimators.throughput import ThroughputParams, step_time_s
from ..executor.pace import Pace
from .applications import DEFAULT_RESTART_S, RESTART_S, Application
from .step_times import Shape, StepTime
from .training_statistics import TrainingStatistics

# Epochs, steps and gradient noise of each model; written by `python -m benchmarks.fit_training`.
TRAINING = Path(__file__).with_name("training.json")


@dataclass(eq=False)
class FittedStepTimes:
    """Step times by the fitted model of a GPU type, for any placement."""

    params: ThroughputParams
    low: int
    high: int

    def sizes(self, shape: Shape) -> tuple[float, float]:
        return float(self.low), float(self.high)

    def at(self, shape: Shape, local_bsz: float) -> StepTime:
        step = float(step_time_s(self.params, len(shape), sum(shape), local_bsz, 0, max(shape)))
        # One more pass costs compute alone.
        passes = float(step_time_s(self.params, len(shape), sum(shape), local_bsz, 1, max(shape))) - step
        return StepTime(step, max(step - passes, 0.0))

    def samples(self) -> Iterator[tuple[Shape, int]]:
        shapes: list[Shape] = [(1,), (2,), (4,), (8,), (2, 2), (4, 4), (8, 8), (4, 4, 4, 4)]
        for shape in shapes:
            for size in np.unique(np.geomspace(self.low, self.high, 6).round()).tolist():
                yield shape, int(size)


class FittedApplications:
    """The models of `training.json` on GPU types with fitted step times."""

    def __init__(self, gpu_types: Iterable[str]) -> None:
        self._gpu_types = tuple(gpu_types)
        self._made: dict[str, Application] = {}

    def __getitem__(self, name: str) -> Application:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Application:
        models = _models()
        if name not in models:
            raise ValueError(f"application: {name!r} is unknown; fitted are {', '.join(sorted(models))}")
        known = models[name]
        times = {}
        for gpu_type in self._gpu_types:
            pace = Pace.of(name, gpu_type)
            low = min(known["min_local_bsz"], pace.max_local_bsz)
            times[gpu_type] = FittedStepTimes(pace.params, low, pace.max_local_bsz)
        return Application(
            name, _statistics(known), times, RESTART_S.get(name, DEFAULT_RESTART_S), int(known["epochs"])
        )


def application_names() -> tuple[str, ...]:
    return tuple(sorted(_models()))


@cache
def _models() -> dict[str, Any]:
    models: dict[str, Any] = json.loads(TRAINING.read_text())["models"]
    return models


def _statistics(known: dict[str, Any]) -> TrainingStatistics:
    epochs = int(known["epochs"])
    first, last = float(known["initial_batch_size"]), float(known["max_batch_size"])
    ends = (np.arange(epochs) + 1) / epochs
    log_phi = np.interp(ends, known["at"], np.log(known["noise_scale"]))
    grad_var = np.exp(log_phi) / first
    return TrainingStatistics(
        batch_sizes=np.array([first, last]),
        progress=np.tile(ends * float(known["progress"]), (2, 1)),
        grad_sqr=np.ones((2, epochs)),
        grad_var=np.tile(grad_var, (2, 1)),
    )
