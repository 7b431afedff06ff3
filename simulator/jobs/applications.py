"""Applications: models with measured step times per GPU type, and statistics of training at each batch size."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from .extrapolation import ExtrapolatedStepTimes
from .pipeline import PIPELINES, PipelineStepTimes
from .step_times import Shape, StepTime, StepTimes
from .training_statistics import TrainingStatistics

# Seconds from stopping to training again (Sia artifact, sia-simulator/simulator_config.py @ aaf7a0d).
RESTART_S = {"cifar10": 50.0, "bert": 120.0, "deepspeech2": 25.0, "yolov3": 80.0, "imagenet": 250.0, "ncf": 15.0}
DEFAULT_RESTART_S = 30.0
# Epochs for which each model is trained there.
EPOCHS = {"bert": 2, "gpt_pmp": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
# GPU type -> its name in the measured files, if that differs.
SUFFIXES = {"t4": "aws", "a100": "dgx-ext", "v100": "azure"}


class StepTimeSource(Protocol):
    """Step times of one model on one GPU type."""

    def at(self, shape: Shape, local_bsz: float) -> StepTime:
        """Return the step time of a shape. Raise ValueError if it is not known."""

    def sizes(self, shape: Shape) -> tuple[float, float]:
        """Return the smallest and largest local batch size that `at` knows for a shape."""

    def measured(self, shape: Shape) -> bool:
        """Return whether `at` is reliable for the shape: it was measured, or the fit covers any shape."""

    def samples(self) -> Iterable[tuple[Shape, int]]:
        """Return the shapes and local batch sizes that a complete measurement has seen."""


@dataclass(frozen=True, eq=False)
class Application:
    """A model on the GPU types on which it was measured.

    Shapes and local batch sizes are those of replicas. A replica takes `gpus_per_replica` GPUs of a type, 1 by
    default.
    """

    name: str
    statistics: TrainingStatistics
    step_times: Mapping[str, StepTimeSource]  # GPU type ->
    restart_s: float
    epochs: int
    largest_batch: int | None = None  # if it is less than that of the statistics
    gpus_per_replica: Mapping[str, int] = field(default_factory=dict)
    start_s: float | None = None  # until processes on new GPUs have started; None: `restart_s`
    pause_s: float = 0.0  # between old and new GPUs, if `start_s` is known
    assumed_restart_s: float | None = None  # policies assume it until the first restart; None: `restart_s`

    @classmethod
    def read(cls, folder: Path, gpu_types: Iterable[str]) -> Application:
        """Read the measured files of a model's folder. Warn of GPU types without them; no job runs there.

        Raise ValueError if there are files for none of the types.
        """
        name = folder.name
        if not folder.is_dir():
            have = sorted(path.name for path in folder.parent.glob("*/") if any(path.glob("validation-*.csv")))
            raise ValueError(
                f"profiles: {folder.parent} has no model {name!r}; it has {', '.join(have) or 'none'}"
            )
        times: dict[str, StepTimeSource] = {}
        missing: list[str] = []
        pipeline = PIPELINES.get(name)
        for gpu_type in gpu_types:
            suffix = SUFFIXES.get(gpu_type, gpu_type)
            if not (folder / f"placements-{suffix}.csv").is_file() or (
                pipeline and gpu_type not in pipeline.stages
            ):
                missing.append(gpu_type)
                continue
            measured = StepTimes.read(folder, suffix)
            times[gpu_type] = ExtrapolatedStepTimes(
                f"{name} on {gpu_type}",
                PipelineStepTimes(measured, pipeline.stages[gpu_type], pipeline.micro_batches)
                if pipeline
                else measured,
            )
        have = list(times) or sorted(path.stem.split("-", 1)[1] for path in folder.glob("placements-*.csv"))
        for gpu_type in missing:
            if not times:
                raise ValueError(not_measured(name, gpu_type, have))
            warnings.warn(not_measured(name, gpu_type, have), stacklevel=2)
        statistics = TrainingStatistics.read(folder)
        if pipeline:
            statistics = statistics.from_batch_size(pipeline.micro_batches)
        epochs = min(EPOCHS.get(name, statistics.epochs), statistics.epochs)
        stages = {t: pipeline.stages[t] for t in times} if pipeline else {}
        return cls(name, statistics, times, RESTART_S.get(name, DEFAULT_RESTART_S), epochs, None, stages)

    def per_replica(self, gpu_type: str) -> int:
        """Return the GPUs of one replica on a GPU type."""
        return self.gpus_per_replica.get(gpu_type, 1)

    @property
    def initial_batch_size(self) -> int:
        return self.statistics.initial_batch_size

    @property
    def max_batch_size(self) -> int:
        return self.largest_batch or self.statistics.max_batch_size

    @cached_property
    def local_bsz(self) -> dict[str, tuple[int, int]]:
        """The smallest and largest local batch size measured on each GPU type."""
        found = {}
        for gpu_type, times in self.step_times.items():
            limits = [times.sizes(shape) for shape in {shape for shape, _ in times.samples()}]
            found[gpu_type] = int(min(low for low, _ in limits)), int(max(high for _, high in limits))
        return found


def not_measured(name: str, gpu_type: str, known: Iterable[str]) -> str:
    """Return a sentence that says on which GPU type a model was not measured."""
    have = ", ".join(known)
    return f"profiles: {name} was not measured on {gpu_type}, no such job will run there; it was on {have}"


class MeasuredApplications:
    """The models of a folder of measured files. Each is read when it is first asked for.

    Raise ValueError if there is no such folder.
    """

    def __init__(self, folder: Path, gpu_types: Iterable[str]) -> None:
        if not folder.is_dir():
            raise ValueError(f"profiles: {folder} is no folder")
        self._folder, self._gpu_types = folder, tuple(gpu_types)
        self._read: dict[str, Application] = {}

    def __getitem__(self, name: str) -> Application:
        if name not in self._read:
            self._read[name] = Application.read(self._folder / name, self._gpu_types)
        return self._read[name]
