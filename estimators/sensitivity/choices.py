"""What CPUs and memory are worth choosing between for a job: no slower than at its share, and none in vain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from .model import TOLERANCE, Floats, Sensitivity, speed


@dataclass(frozen=True)
class Share:
    """The part of a node that belongs to each of its GPUs, and the most that a job may have for each GPU."""

    cpus: float
    memory_gib: float
    most_cpus: float
    most_memory_gib: float


@dataclass(frozen=True, eq=False)
class Choices:
    """What a job may get, from the slowest to the fastest; nothing is as fast with less of both.

    cpus, memory_gib: (choices,) totals over the job's GPUs.
    speed: (choices,) over that at the share, so 1 is the share's.
    share: CPUs and memory that the job is never slower than with. Where its user gave a number, that one.
    best: position of the best-case demand. low: position of what asks for least within the share.
    is_wider: whether the user gave more than the GPUs' share, so that there may be no room for the job.
    """

    sensitivity: Sensitivity | None
    step_rate: float
    gpus: int
    cpus: Floats
    memory_gib: Floats
    speed: Floats
    share: tuple[float, float]
    best: int
    low: int
    is_wider: bool

    @property
    def demand(self) -> tuple[float, float]:
        """CPUs and memory of the best-case demand: the least that saturates."""
        return float(self.cpus[self.best]), float(self.memory_gib[self.best])

    @cached_property
    def lists(self) -> tuple[list[float], list[float], list[float]]:
        """CPUs, memory and speed as lists, which are faster to read one by one."""
        return self.cpus.tolist(), self.memory_gib.tolist(), self.speed.tolist()

    def speed_with(self, cpus: float, memory_gib: float) -> float:
        """Return the speed with any amount, over that at the share."""
        if self.sensitivity is None:
            return 1.0
        at = speed(self.sensitivity, self.gpus, cpus, memory_gib, self.step_rate)
        return float(at / speed(self.sensitivity, self.gpus, *self.share, self.step_rate))


def best_case(
    sensitivity: Sensitivity, gpus: int, share: Share, step_rate: float = np.inf, saturation: float = 0.0
) -> tuple[float, float]:
    """Return the best-case demand of a job: the least CPUs, then the least memory, that saturate.

    Args:
        saturation: by what part of the greatest speed the job may be slower, in [0, 1).

    Raises: ValueError as `choices` does.
    """
    return choices(sensitivity, gpus, share, step_rate, saturation).demand


@lru_cache(maxsize=4096)
def choices(
    sensitivity: Sensitivity | None,
    gpus: int,
    share: Share,
    step_rate: float = np.inf,
    saturation: float = 0.0,
    cpus: float | None = None,
    memory_gib: float | None = None,
) -> Choices:
    """Return what a job may get.

    Args:
        sensitivity: None: nothing is known, so the job gets its share.
        share: of each GPU, on the nodes that the job may be on.
        step_rate: as in `speed`.
        saturation: as in `best_case`.
        cpus, memory_gib: totals that the user gave, which the job then gets; None: to be chosen.

    Raises:
        ValueError: one sentence, for a saturation outside [0, 1), and for a share that the sensitivity refuses.
    """
    if not 0 <= saturation < 1:
        raise ValueError(f"saturation: {saturation} is not accepted; a number in [0, 1) is")
    part = (gpus * share.cpus, gpus * share.memory_gib)
    own = (part[0] if cpus is None else cpus, part[1] if memory_gib is None else memory_gib)
    wider = any(a > b * (1 + TOLERANCE) for a, b in zip(own, part, strict=True))
    if sensitivity is None:
        c, m = np.array([own[0]]), np.array([own[1]])
        return Choices(None, step_rate, gpus, c, m, np.ones(1), own, 0, 0, wider)
    if (refusal := sensitivity.refusal(gpus, *own)) is not None:
        raise ValueError(refusal)
    c_axis, m_axis = sensitivity.axes(gpus, step_rate)
    most = (max(gpus * share.most_cpus, own[0]), max(gpus * share.most_memory_gib, own[1]))
    c_axis = _axis(c_axis, own[0], most[0], cpus is None)
    m_axis = _axis(m_axis, own[1], most[1], memory_gib is None and sensitivity.knows_memory)
    grid = speed(sensitivity, gpus, c_axis[:, None], m_axis[None, :], step_rate)
    alone = float(speed(sensitivity, gpus, *own, step_rate))
    if not alone > 0:
        raise ValueError(f"memory_gib: {own[1]:g} GiB are too little for the job on {gpus} GPUs to run at all")
    c, m = (axis.ravel() for axis in np.broadcast_arrays(c_axis[:, None], m_axis[None, :]))
    rate = grid.ravel()
    may = rate >= alone * (1 - TOLERANCE)
    best = _best(grid, saturation)
    if not may[best]:  # within `saturation` of the fastest, and yet slower than at the share
        best = int(np.flatnonzero(may)[np.argmin(rate[may])])
    at = _worth(c / most[0], m / most[1], rate, may, best)
    within = (c[at] <= own[0] * (1 + TOLERANCE)) & (m[at] <= own[1] * (1 + TOLERANCE))
    cost = np.where(within, c[at] / most[0] + m[at] / most[1], np.inf)
    return Choices(
        sensitivity,
        step_rate,
        gpus,
        c[at],
        m[at],
        rate[at] / alone,
        own,
        int(np.flatnonzero(at == best)[0]),
        int(np.argmin(cost)),
        wider,
    )


def _axis(axis: Floats, own: float, most: float, may_choose: bool) -> Floats:
    """Return the points of an axis up to the most, and the share; the share alone where nothing may be chosen."""
    if not may_choose:
        return np.array([own])
    return np.union1d(axis[axis <= most * (1 + TOLERANCE)], np.array([own]))


def _best(grid: Floats, saturation: float) -> int:
    """Return the position of the least CPUs, and with them of the least memory, that saturate."""
    enough = (1 - saturation) * float(grid[:, -1].max()) * (1 - TOLERANCE)
    row = int(np.argmax(grid[:, -1] >= enough))
    return row * grid.shape[1] + int(np.argmax(grid[row] >= enough))


def _worth(c: Floats, m: Floats, rate: Floats, may: np.ndarray, best: int) -> np.ndarray:
    """Return positions, slowest first, that may be chosen and than which nothing is as fast with less of both.

    The best is among them in any case.
    """
    at = np.flatnonzero(may)
    kept: list[int] = []
    for i in at[np.lexsort((c[at] + m[at], -rate[at]))].tolist():
        if not any(c[k] <= c[i] + TOLERANCE and m[k] <= m[i] + TOLERANCE for k in kept):
            kept.append(i)
    chosen = np.array(kept if best in kept else [*kept, best], np.int64)
    return chosen[np.lexsort((m[chosen], c[chosen], rate[chosen]))]
