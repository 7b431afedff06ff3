"""The measured profiles of the Sia artifact as `Profile`s; read from beside the checkout, never committed."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

import numpy as np
from coadapt.estimators.profile import Profile

from .harness import DATA, needs

TRACES = DATA / "sia" / "sia-simulator" / "traces"
SOURCE = (
    "step times measured for Sia (Jayaram Subramanya et al., SOSP 2023), "
    "github.com/siasosp23/artifacts @ aaf7a0d, sia-simulator/traces"
)
GPU_TYPES = {"t4": "aws", "rtx": "rtx", "quad": "quad", "v100": "azure", "a100": "dgx-ext"}
# Parameters of the published architectures: BERT-base, ResNet-18, DeepSpeech2 (5 x 800 GRU), YOLOv3, ResNet-50.
PARAMETERS = {
    "bert": 109_000_000,
    "cifar10": 11_200_000,
    "deepspeech2": 38_000_000,
    "yolov3": 61_900_000,
    "imagenet": 25_600_000,
}


@dataclass(frozen=True, eq=False)
class Measured:
    model: str
    gpu_type: str
    profile: Profile
    placement: np.ndarray  # per row of the profile: which placement it was measured on

    @property
    def max_local_bsz(self) -> int:
        return int(self.profile.local_bsz.max())


@cache
def measured(model: str, gpu_type: str) -> Measured:
    """Return all placements of at most 16 GPUs, one row per placement and local batch size, in the file's order.

    Placements of the same (nodes, replicas, densest node) are distinct rows here, as in the published evaluation.
    """
    path = TRACES / model / f"placements-{GPU_TYPES[gpu_type]}.csv"
    needs(path)
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    shapes = [[int(digit) for digit in row["placement"]] for row in rows]
    step = np.array([float(row["step_time"]) for row in rows])
    profile = Profile(
        nodes=np.array([len(shape) for shape in shapes]),
        replicas=np.array([sum(shape) for shape in shapes]),
        local_bsz=np.array([int(row["local_bsz"]) for row in rows]),
        accumulation=np.zeros(len(rows), np.int64),
        step_time_s=step,
        sync_time_s=np.minimum(np.array([float(row["sync_time"]) for row in rows]), step),
        count=np.ones(len(rows), np.int64),
        densest=np.array([max(shape) for shape in shapes]),
    )
    return Measured(model, gpu_type, profile, np.array([row["placement"] for row in rows]))


def initial_batch_size(model: str) -> int:
    """Return the smallest total batch size that the model was validated with."""
    return min(_validation_sizes(model))


def max_batch_size(model: str) -> int:
    return max(_validation_sizes(model))


def noise_scale(model: str) -> float:
    """Return φ = var / sqr in samples: median over all epochs of all validation runs.

    `grad_var` is the variance at the initial batch size, so φ is the ratio times that size.
    """
    ratios = []
    for size in _validation_sizes(model):
        with open(TRACES / model / f"validation-{size}.csv", newline="") as file:
            rows = [(float(row["grad_var"]), float(row["grad_sqr"])) for row in csv.DictReader(file)]
        ratios += [var / sqr for var, sqr in rows if sqr > 0]
    return float(np.median(ratios)) * initial_batch_size(model)


def _validation_sizes(model: str) -> list[int]:
    return [int(path.stem.split("-")[1]) for path in (TRACES / model).glob("validation-*.csv")]
