"""Models whose training was measured: step times per GPU type, and how they train at each batch size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from .step_times import Shape, StepTime, StepTimes
from .training_statistics import TrainingStatistics

# Seconds from stopping to training again (Sia artifact, sia-simulator/simulator_config.py @ aaf7a0d).
RESTART_S = {"cifar10": 50.0, "bert": 120.0, "deepspeech2": 25.0, "yolov3": 80.0, "imagenet": 250.0, "ncf": 15.0}
DEFAULT_RESTART_S = 30.0
# Epochs each model is trained for there.
EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
# GPU type -> how the measured files name it, where they differ.
SUFFIXES = {"t4": "aws", "a100": "dgx-ext", "v100": "azure"}


class StepTimeSource(Protocol):
    """Step times of one model on one GPU type."""

    def at(self, shape: Shape, local_bsz: float) -> StepTime:
        """Raises ValueError for what is not known."""

    def sizes(self, shape: Shape) -> tuple[float, float]:
        """Smallest and largest local batch size that `at` knows for a shape."""

    def samples(self) -> Iterable[tuple[Shape, int]]:
        """Shapes and local batch sizes that someone who measured everything has seen."""


@dataclass(frozen=True, eq=False)
class Application:
    """A model on the GPU types it was measured on."""

    name: str
    statistics: TrainingStatistics
    step_times: Mapping[str, StepTimeSource]  # GPU type ->
    restart_s: float
    epochs: int
    largest_batch: int | None = None  # where it is less than the statistics reach

    @classmethod
    def read(cls, folder: Path, gpu_types: Iterable[str]) -> Application:
        """From a model's folder of measured files. Raises ValueError where a GPU type was not measured."""
        name = folder.name
        if not folder.is_dir():
            have = sorted(path.name for path in folder.parent.glob("*/") if any(path.glob("validation-*.csv")))
            raise ValueError(
                f"profiles: {folder.parent} has no model {name!r}; it has {', '.join(have) or 'none'}"
            )
        times: dict[str, StepTimeSource] = {}
        for gpu_type in gpu_types:
            suffix = SUFFIXES.get(gpu_type, gpu_type)
            if not (folder / f"placements-{suffix}.csv").is_file():
                have = sorted(path.stem.split("-", 1)[1] for path in folder.glob("placements-*.csv"))
                raise ValueError(f"profiles: {name} was not measured on {gpu_type}; it was on {', '.join(have)}")
            times[gpu_type] = StepTimes.read(folder, suffix)
        statistics = TrainingStatistics.read(folder)
        epochs = min(EPOCHS.get(name, statistics.epochs), statistics.epochs)
        return cls(name, statistics, times, RESTART_S.get(name, DEFAULT_RESTART_S), epochs)

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
