"""Models whose training was measured: step times per GPU type, and how they train at each batch size."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from .beyond_measured import BeyondMeasured
from .pipeline import PIPELINES, PipelineStepTimes
from .step_times import Shape, StepTime, StepTimes
from .training_statistics import TrainingStatistics

# Seconds from stopping to training again (Sia artifact, sia-simulator/simulator_config.py @ aaf7a0d).
RESTART_S = {"cifar10": 50.0, "bert": 120.0, "deepspeech2": 25.0, "yolov3": 80.0, "imagenet": 250.0, "ncf": 15.0}
DEFAULT_RESTART_S = 30.0
# Epochs each model is trained for there.
EPOCHS = {"bert": 2, "gpt_pmp": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
# GPU type -> how the measured files name it, where they differ.
SUFFIXES = {"t4": "aws", "a100": "dgx-ext", "v100": "azure"}


class StepTimeSource(Protocol):
    """Step times of one model on one GPU type."""

    def at(self, shape: Shape, local_bsz: float) -> StepTime:
        """Raises ValueError for what is not known."""

    def sizes(self, shape: Shape) -> tuple[float, float]:
        """Smallest and largest local batch size that `at` knows for a shape."""

    def measured(self, shape: Shape) -> bool:
        """Whether what `at` says of the shape was measured, or fitted for any."""

    def samples(self) -> Iterable[tuple[Shape, int]]:
        """Shapes and local batch sizes that someone who measured everything has seen."""


@dataclass(frozen=True, eq=False)
class Application:
    """A model on the GPU types it was measured on.

    Shapes and local batch sizes are those of replicas; a replica takes `gpus_per_replica` of a type, else one GPU.
    """

    name: str
    statistics: TrainingStatistics
    step_times: Mapping[str, StepTimeSource]  # GPU type ->
    restart_s: float
    epochs: int
    largest_batch: int | None = None  # where it is less than the statistics reach
    gpus_per_replica: Mapping[str, int] = field(default_factory=dict)
    start_s: float | None = None  # of processes on new GPUs, while it trains on its old ones; None: `restart_s`
    pause_s: float = 0.0  # between old and new GPUs, where `start_s` is known
    assumed_restart_s: float | None = None  # by policies until the first restart; None: `restart_s`

    @classmethod
    def read(cls, folder: Path, gpu_types: Iterable[str]) -> Application:
        """From a model's folder of measured files. Jobs cannot run on GPU types on which it was not measured,
        of which a warning tells; raises ValueError where those are all."""
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
            times[gpu_type] = BeyondMeasured(
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
        return self.gpus_per_replica.get(gpu_type, 1)

    @property
    def initial_batch_size(self) -> int:
        return self.statistics.initial_batch_size

    @property
    def max_batch_size(self) -> int:
        return self.largest_batch or self.statistics.max_batch_size

    @cached_property
    def local_bsz(self) -> dict[str, tuple[int, int]]:
        """Smallest and largest local batch size measured on each GPU type."""
        found = {}
        for gpu_type, times in self.step_times.items():
            limits = [times.sizes(shape) for shape in {shape for shape, _ in times.samples()}]
            found[gpu_type] = int(min(low for low, _ in limits)), int(max(high for _, high in limits))
        return found


def not_measured(name: str, gpu_type: str, known: Iterable[str]) -> str:
    have = ", ".join(known)
    return f"profiles: {name} was not measured on {gpu_type}, no such job will run there; it was on {have}"


class MeasuredApplications:
    """The models of a folder of measured files, each read when it is first asked for."""

    def __init__(self, folder: Path, gpu_types: Iterable[str]) -> None:
        if not folder.is_dir():
            raise ValueError(f"profiles: {folder} is no folder")
        self._folder, self._gpu_types = folder, tuple(gpu_types)
        self._read: dict[str, Application] = {}

    def __getitem__(self, name: str) -> Application:
        if name not in self._read:
            self._read[name] = Application.read(self._folder / name, self._gpu_types)
        return self._read[name]
