"""A job that a live cluster recorded, as an application of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ...estimators.throughput import ThroughputParams
from ..traces.recorded import RecordedModel
from .applications import Application, StepTimeSource
from .fitted_step_times import FittedStepTimes
from .training_statistics import TrainingStatistics


def _check(name: str, model: RecordedModel) -> None:
    """Raise ValueError, in one sentence with field and value, for a parameter that is not accepted."""
    noise = 0.0 if model.noise_scale is None else model.noise_scale
    assumed_s, start_s = model.assumed_restart_s or 0.0, model.start_s or 0.0
    accepted = {
        "samples": (model.samples, 0 < model.samples < math.inf, "more than 0"),
        "noise_scale": (noise, 0 <= noise < math.inf, "0 or more"),
        "restart_s": (model.restart_s, 0 <= model.restart_s < math.inf, "0 or more"),
        "slowdown": (model.slowdown, 0 < model.slowdown < math.inf, "more than 0"),
        "start_s": (start_s, 0 <= start_s < math.inf, "0 or more"),
        "pause_s": (model.pause_s, 0 <= model.pause_s < math.inf, "0 or more"),
        "assumed_restart_s": (assumed_s, 0 <= assumed_s < math.inf, "0 or more"),
        "initial_batch_size": (model.initial_batch_size, model.initial_batch_size >= 1, "at least 1"),
        "max_batch_size": (
            model.max_batch_size, model.max_batch_size >= model.initial_batch_size, "at least initial_batch_size",
        ),
        "min_local_bsz": (model.min_local_bsz, model.min_local_bsz >= 1, "at least 1"),
    }  # fmt: skip
    for gpu_type, known in model.throughput.items():
        for field in ("max_local_bsz", "gpus_per_replica"):
            value = getattr(known, field)
            accepted[f"throughput.{gpu_type}.{field}"] = value, value >= 1, "at least 1"
    for field, (value, good, wanted) in accepted.items():
        if not good:
            raise ValueError(f"trace: job {name}: model.{field} {value} must be {wanted}")


def application_of(name: str, model: RecordedModel, gpu_types: Iterable[str]) -> Application:
    """Return the job as an application of its own, with one epoch of constant noise.

    Raise ValueError if it was measured on none of the GPU types, or a parameter is not accepted.
    """
    _check(name, model)
    times: dict[str, StepTimeSource] = {}
    for gpu_type in gpu_types:
        known = model.throughput.get(gpu_type)
        if known is not None:
            try:
                params = ThroughputParams.from_json(known.params)
            except ValueError as error:
                raise ValueError(f"trace: job {name}: model.throughput.{gpu_type}: {error}") from None
            low = min(model.min_local_bsz, known.max_local_bsz)
            times[gpu_type] = FittedStepTimes(params, low, known.max_local_bsz)
    if not times:
        have = ", ".join(sorted(model.throughput)) or "none"
        raise ValueError(f"trace: job {name} was measured on {have}, and on no GPU type of the cluster")
    first, last = model.initial_batch_size, model.max_batch_size
    noise = 0.0 if model.noise_scale is None else model.noise_scale
    statistics = TrainingStatistics(
        batch_sizes=np.array([first, max(last, first + 1)], float),
        progress=np.full((2, 1), model.samples / first),
        grad_sqr=np.ones((2, 1)),
        grad_var=np.full((2, 1), noise / first),
    )
    per_replica = {t: model.throughput[t].gpus_per_replica for t in times}
    return Application(
        name,
        statistics,
        times,
        model.restart_s,
        1,
        last,
        per_replica,
        start_s=model.start_s,
        pause_s=model.pause_s,
        assumed_restart_s=model.assumed_restart_s,
    )
