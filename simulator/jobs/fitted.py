"""The applications that ship with the project: fitted step times and gradient noise."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...estimators.pace import Pace
from ...estimators.throughput import ThroughputParams
from .applications import DEFAULT_RESTART_S, RESTART_S, Application, not_measured
from .fitted_step_times import FittedStepTimes
from .training_statistics import TrainingStatistics

# Epochs, steps and gradient noise of each model; written by `python -m benchmarks.fit_training`.
TRAINING = Path(__file__).with_name("training.json")


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
        """Return an application. Raise ValueError if it is unknown, or fitted on none of the GPU types."""
        models = _models()
        if name not in models:
            raise ValueError(f"application: {name!r} is unknown; fitted are {', '.join(sorted(models))}")
        known = models[name]
        fits = {t: fit for t in self._gpu_types if (fit := _fit_of(name, known, t)) is not None}
        for gpu_type in self._gpu_types:
            if gpu_type not in fits and fits:
                warnings.warn(not_measured(name, gpu_type, fits), stacklevel=2)
        if not fits:
            for gpu_type in self._gpu_types[:1]:
                Pace.of(name, gpu_type)  # its error says where the model was measured
            raise ValueError(f"application: {name!r} was measured on none of {', '.join(self._gpu_types)}")
        per_replica = {t: int(known["gpus_per_replica"][t]) for t in fits} if "gpus_per_replica" in known else {}
        restart_s = RESTART_S.get(name, DEFAULT_RESTART_S)
        return Application(name, _statistics(known), fits, restart_s, int(known["epochs"]), None, per_replica)


def _fit_of(name: str, known: dict[str, Any], gpu_type: str) -> FittedStepTimes | None:
    """Return the fitted step times on a GPU type; None: the model was not measured there."""
    if "throughput" in known:  # laptops do not emulate such a model
        own = known["throughput"].get(gpu_type)
        size = known["min_local_bsz"]
        return own and FittedStepTimes(ThroughputParams.from_json(own), size, size)
    try:
        pace = Pace.of(name, gpu_type)
    except ValueError:
        return None
    return FittedStepTimes(pace.params, min(known["min_local_bsz"], pace.max_local_bsz), pace.max_local_bsz)


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
