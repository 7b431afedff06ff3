"""How long an epoch of a group takes, and how much memory it needs, by its trials and the width of the model.

Fitted to what the authors of Hydro measured of ResNet-18 on CIFAR-10 on one A100 of 80 GiB. The sources are in the
artifact of OSDI'23: `resnet18_256.csv` (batch size 256) and the 50 trials of `artifact_ray_50.csv` and
`artifact_hydro_50.csv` (how times change with the batch size).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...tuning.planner import EpochTime, GroupMemory

MIB = 1 / 1024  # GiB
A100_GIB = 80.0


@dataclass(frozen=True)
class FusionProfile:
    """Times and memory of ResNet-18, batch size 256 unless said.

    `narrow`: knots (trials, seconds of an epoch) at an eighth of the width. Between them times are linear; beyond
        the last the slope goes on.
    `wide`: the same at full width. Widths between take the power law that leads from one slope to the other.
    `narrow_mib`, `wide_mib`: (memory of no trial, memory of each), MiB.
    `by_batch`: batch size -> factor of an epoch of (one wide trial, a narrow group).
    `step_ms`: of one wide trial: (what does not shrink with the batch, per sample); GPUs that share a batch shrink
        the second part and add `reduce_ms`. Fitted to batch sizes 128, 256 and 512.
    `speed`: how fast the GPU is over an A100, by its type.
    """

    narrow: tuple[tuple[int, float], ...] = (
        (1, 5.59),
        (10, 9.40),
        (25, 18.3),
        (100, 38.3),
        (150, 56.1),
        (220, 81.0),
    )
    wide: tuple[tuple[int, float], ...] = ((1, 6.10), (10, 38.4), (25, 89.1))
    narrow_mib: tuple[float, float] = (1479.0, 101.6)
    wide_mib: tuple[float, float] = (1500.0, 804.0)
    by_batch: dict[int, tuple[float, float]] = field(
        default_factory=lambda: {128: (1.45, 1.86), 256: (1.0, 1.0), 512: (0.94, 0.88)}
    )
    step_ms: tuple[float, float] = (9.0, 0.0814)
    reduce_ms: float = 2.0
    gpu_gib: float = A100_GIB

    def epoch_s(self, trials: int, shrink: int, batch_size: int = 256, gpus: int = 1) -> float:
        """Return the seconds of an epoch. More than one GPU: of one wide trial."""
        narrow, wide = _at(self.narrow, trials), _at(self.wide, trials)
        part = np.log2(shrink) / 3  # 0: wide, 1: an eighth
        seconds = float(np.exp((1 - part) * np.log(wide) + part * np.log(narrow)))
        by_wide, by_narrow = self.by_batch.get(batch_size, (256 / batch_size, 256 / batch_size))
        seconds *= by_wide if trials == 1 and shrink == 1 else by_narrow
        return seconds / self.speed_up(gpus, batch_size)

    def speed_up(self, gpus: int, batch_size: int = 256) -> float:
        """Return how much faster one wide trial is on so many GPUs that share each batch."""
        fixed, each = self.step_ms
        if gpus <= 1:
            return 1.0
        return (fixed + each * batch_size) / (fixed + each * batch_size / gpus + self.reduce_ms)

    def memory(self, shrink: int) -> GroupMemory:
        """Return what one trial and two take. The part that grows with trials goes by the power law of widths."""
        part = np.log2(shrink) / 3
        none = (1 - part) * self.wide_mib[0] + part * self.narrow_mib[0]
        each = float(np.exp((1 - part) * np.log(self.wide_mib[1]) + part * np.log(self.narrow_mib[1])))
        return GroupMemory((none + each) * MIB, (none + 2 * each) * MIB, self.gpu_gib)

    def time(self, shrink: int, batch_size: int = 256) -> EpochTime:
        """Return the line through the times of few and of many trials, which a planner goes by."""
        few, many = (1, 2) if shrink == 1 else (10, 150)
        first, last = (self.epoch_s(n, shrink, batch_size) for n in (few, many))
        each = (last - first) / (many - few)
        return EpochTime(first - few * each, each)


def _at(knots: tuple[tuple[int, float], ...], trials: int) -> float:
    (_, before), (first, second) = knots[-2], knots[-1]
    if trials > first:
        slope = (second - before) / (first - knots[-2][0])
        return second + slope * (trials - first)
    return float(np.interp(trials, [n for n, _ in knots], [s for _, s in knots]))
