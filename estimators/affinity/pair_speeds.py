"""How fast one job runs beside another on one GPU, as a sum that people can read. Pure.

It is symmetric: one model says both speeds, asked once with each of the two jobs in front. No job is ever faster
than alone. What is not known of a job has a score of its own, so that no pair is free for want of a measurement.

The numbers that come with the package are fitted to the pairs of Gavel (OSDI'20, MIT licence), which ran on K80,
P100 and V100. Those tables hold no utilisation. Each job's part of busy time was therefore inferred from all of
its pairs, such that pair speeds depend on the sum of both. The K80, which every one of these jobs fills, is 1. So
they know GPU utilisation alone; memory and mixed precision say nothing in them. `python -m
benchmarks.fit_pair_speeds` makes them anew. Fit to pairs of the cluster's own GPUs where there are some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ..interpretable import additive_fit, model_file
from ..interpretable.additive import AdditiveModel, Sum
from ..interpretable.additive_fit import AdditiveSettings
from ..interpretable.corrections import with_monotone
from ..interpretable.table import Floats, Table, named
from .pair_table import PairTable
from .uses import GPU_UTIL, MEMORY_UTIL, MIXED_PRECISION

NAMES = (
    "both_gpu_util", "both_memory_util", "own_gpu_util", "partner_gpu_util", "own_memory_util",
    "partner_memory_util", "own_mixed_precision", "partner_mixed_precision",
)  # fmt: skip
FEATURES = named(NAMES)
DEFAULT = Path(__file__).with_name("pair_speeds.json")
LEAST_SPEED = 0.05  # beyond it models say what no pair was
SETTINGS = AdditiveSettings(bins=32, interactions=0, learning_rate=0.04, bags=2, rounds=400)
LEAST_PAIRS = 20


@dataclass(frozen=True)
class PairSpeeds:
    """A fitted model of speeds relative to running alone, above 0 and at most 1."""

    model: AdditiveModel

    def __post_init__(self) -> None:
        if tuple(one.name for one in self.model.features) != NAMES:
            raise ValueError(f"pair speeds: the model is of other features; {', '.join(NAMES)} are accepted")

    def of(self, jobs: Floats, partners: Floats) -> Floats:
        """Return (pairs,) speeds of jobs, each beside its partner; both (pairs, features of `uses`)."""
        return np.clip(self.model.predict(directed(jobs, partners)), LEAST_SPEED, 1.0)

    def both(self, jobs: Floats, partners: Floats) -> Floats:
        """Return (pairs,) means of the two speeds of each pair; the same whoever stands in front."""
        return (self.of(jobs, partners) + self.of(partners, jobs)) / 2

    def matrix(self, jobs: Floats, partners: Floats) -> Floats:
        """Return (jobs, partners) speeds of each job beside each partner."""
        count, beside = len(jobs), len(partners)
        found = self.of(np.repeat(jobs, beside, axis=0), np.tile(partners, (count, 1)))
        return found.reshape(count, beside)

    def filled(self, pairs: PairTable) -> Floats:
        """Return (jobs, jobs) speeds: as measured, at most 1, and as foretold where nobody measured."""
        return np.where(np.isnan(pairs.speeds), self.matrix(pairs.uses, pairs.uses), np.minimum(pairs.speeds, 1.0))

    def explain(self, job: Floats, partner: Floats) -> Sum:
        """Return the speed of one job, (features,), beside another as a sum, before it is held within bounds."""
        return self.model.explain(directed(job[None], partner[None])[0])


def directed(jobs: Floats, partners: Floats) -> Floats:
    """Return (pairs, features of `NAMES`) of jobs beside partners; both (pairs, features of `uses`)."""
    gpu, memory, mixed = GPU_UTIL, MEMORY_UTIL, MIXED_PRECISION
    return np.column_stack(
        [
            jobs[:, gpu] + partners[:, gpu],
            jobs[:, memory] + partners[:, memory],
            *(of[:, column] for column in (gpu, memory, mixed) for of in (jobs, partners)),
        ]
    )


def fit(
    pairs: PairTable,
    chosen: Sequence[int] | np.ndarray | None = None,
    settings: AdditiveSettings = SETTINGS,
    *,
    seed: int = 0,
) -> PairSpeeds:
    """Fit to measured pairs. More utilisation of both together never makes a pair faster.

    Args:
        chosen: positions among `pairs.pairs` to fit to; None: all.

    Raises:
        ValueError: in one sentence, for fewer than `LEAST_PAIRS` pairs, and where no usage is known.
        LibraryMissing: where the extra `coadapt[learned]` is not installed.
    """
    a, b = (ends if chosen is None else ends[np.asarray(chosen)] for ends in pairs.pairs)
    if len(a) < LEAST_PAIRS:
        raise ValueError(f"pairs: {len(a)} are too few to fit to, at least {LEAST_PAIRS} are accepted")
    if np.isnan(pairs.uses[:, GPU_UTIL]).all():
        raise ValueError("pairs: gpu_util_percent is known of no job, so nothing can be learned from it")
    jobs, partners = np.concatenate([a, b]), np.concatenate([b, a])
    speeds = np.minimum(pairs.speeds[jobs, partners], 1.0)
    table = Table(FEATURES, directed(pairs.uses[jobs], pairs.uses[partners]), speeds, "speed")
    fitted = additive_fit.fit(table, settings, seed=seed, tails=None)
    return PairSpeeds(with_monotone(fitted, NAMES[0], "decreasing", "drop"))


def read(path: Path) -> PairSpeeds:
    """Return the model of a file, with what people changed in it.

    Raises:
        ValueError: in one sentence, for a file that is torn, a tree, or of other features.
    """
    model = model_file.read(path).model
    if not isinstance(model, AdditiveModel):
        raise ValueError(f"{path}: holds a tree, and an additive model is accepted")
    try:
        return PairSpeeds(model)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


@cache
def default() -> PairSpeeds:
    """Return the numbers that come with the package; see the head of this file for what they know."""
    return read(DEFAULT)
