"""Jobs as a live cluster recorded them: each brings its own measured model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..estimators.throughput import ThroughputParams
from .applications import Application, StepTimeSource
from .fitted_step_times import FittedStepTimes
from .training_statistics import TrainingStatistics


@dataclass(frozen=True)
class RecordedThroughput:
    """Throughput on one GPU type: `ThroughputParams` by name, and the largest local batch that fits a replica."""

    params: Mapping[str, float]
    max_local_bsz: int
    gpus_per_replica: int = 1


@dataclass(frozen=True)
class RecordedModel:
    """What was measured of a job: `samples` are those at its initial batch size until it ended.

    `slowdown`: how much longer it trained than `throughput` says, with evaluations, checkpoints and so on.
    `start_s`: from being given GPUs to training on them; where it has others it trains on those meanwhile and then
    pauses for `pause_s`. None: whatever changes costs `restart_s`, which is else what policies take a restart to
    cost, and `assumed_restart_s` what they take before the first (None: the same). All are means.
    """

    throughput: Mapping[str, RecordedThroughput]  # GPU type ->
    initial_batch_size: int
    max_batch_size: int
    samples: float
    min_local_bsz: int = 1
    noise_scale: float | None = None
    slowdown: float = 1.0
    restart_s: float = 0.0
    start_s: float | None = None
    pause_s: float = 0.0
    assumed_restart_s: float | None = None


@dataclass(frozen=True)
class RecordedProfile:
    """A profile run held `gpus` GPUs of a type for `for_s` seconds, `after_s` seconds after its job came."""

    gpu_type: str
    for_s: float
    after_s: float = 0.0
    gpus: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.for_s < math.inf and 0 <= self.after_s < math.inf and self.gpus >= 1):
            raise ValueError(
                f"profiles: {self.gpus} {self.gpu_type} for {self.for_s} s after {self.after_s} s must be "
                "at least 1 GPU for more than 0 s after 0 s or more"
            )


def _check(name: str, model: RecordedModel) -> None:
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
    """The job as an application of its own, with one epoch of constant noise.

    Raises ValueError where it was measured on none of the GPU types, or a parameter is none.
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
