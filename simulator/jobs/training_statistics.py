"""Training of a model at each batch size: gradient statistics and progress, measured epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from ..traces.tables import Floats, numbers, read_rows


@dataclass(eq=False)
class TrainingStatistics:
    """Columns by batch size (rows, increasing) and epoch.

    `progress`: steps at the initial batch size that are made by the end of an epoch.
    `grad_sqr`: squared norm of the gradient (Pollux, section 3.1).
    `grad_var`: variance of the gradient at the initial batch size.
    """

    batch_sizes: Floats  # (sizes,)
    progress: Floats  # (sizes, epochs)
    grad_sqr: Floats
    grad_var: Floats
    _stats: dict[tuple[float, int], tuple[float, float]] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, folder: Path) -> TrainingStatistics:
        """Read `validation-<batch size>.csv` of a model's folder, cut to the epochs of the shortest run.

        Raise ValueError if there are none or a column is missing.
        """
        files = sorted((int(path.stem.split("-")[1]), path) for path in folder.glob("validation-*.csv"))
        if not files:
            raise ValueError(f"profiles: {folder} holds no validation-<batch size>.csv")
        names = ("progress", "grad_sqr", "grad_var")
        runs = []
        for _, path in files:
            rows = read_rows(path, names)
            runs.append([numbers(path, rows, name, least=0) for name in names])
        epochs = min(len(run[0]) for run in runs)
        progress, grad_sqr, grad_var = (np.array([run[i][:epochs] for run in runs]) for i in range(3))
        return cls(np.array([float(size) for size, _ in files]), progress, grad_sqr, grad_var)

    def from_batch_size(self, least: int) -> TrainingStatistics:
        """Return the same training with another initial batch size `least`, one of those measured.

        Progress then counts steps of `least`. Each is worth its gain in the smaller steps that counted before.
        """
        at = int(self.batch_sizes.searchsorted(least))
        gains = np.array([self.gain(least, epoch) for epoch in range(self.epochs)])
        progress = np.cumsum(np.diff(self.progress[at:], axis=1, prepend=0.0) / gains, axis=1)
        grad_var = self.grad_var[at:] * self.initial_batch_size / least
        return TrainingStatistics(self.batch_sizes[at:], progress, self.grad_sqr[at:], grad_var)

    @property
    def initial_batch_size(self) -> int:
        return int(self.batch_sizes[0])

    @property
    def max_batch_size(self) -> int:
        return int(self.batch_sizes[-1])

    @property
    def epochs(self) -> int:
        return self.progress.shape[1]

    @cached_property
    def boundaries(self) -> Floats:
        """(epochs,) progress at which each epoch ends, the least over batch sizes."""
        return self.progress.min(axis=0)

    def gradients(self, batch_size: float, epoch: int) -> tuple[float, float]:
        """Return (squared norm, variance) in an epoch, interpolated between measured batch sizes."""
        key = float(batch_size), epoch
        found = self._stats.get(key)
        if found is None:
            found = self._stats[key] = (
                float(np.interp(batch_size, self.batch_sizes, self.grad_sqr[:, epoch])),
                float(np.interp(batch_size, self.batch_sizes, self.grad_var[:, epoch])),
            )
        return found

    def gain(self, batch_size: float, epoch: int) -> float:
        """Return how many steps at the initial batch size one step is worth."""
        sqr, var = self.gradients(batch_size, epoch)
        return (var + sqr) / (var * self.initial_batch_size / batch_size + sqr)

    def noise_scale(self, batch_size: float, epoch: int) -> float:
        """Return the noise scale φ in samples."""
        sqr, var = self.gradients(batch_size, epoch)
        return var / sqr * self.initial_batch_size
