"""Speeds that were measured on a grid of CPUs and memory per GPU (Synergy, OSDI'22, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .model import TOLERANCE, Floats


@dataclass(frozen=True, eq=False)
class SpeedGrid:
    """Speeds at points of a grid; between them they are interpolated linearly in each direction.

    cpus: (rows,) CPUs per GPU, ascending. memory_gib: (columns,) GiB per GPU, ascending.
    speed: (rows, columns) of one GPU, in any unit. More of either never makes a job slower: a smaller entry
    counts as the one before it. So entries of 0 behind others say that nothing was measured there.

    Beyond the grid the speed is that at its edge. Below the first row it falls in proportion to the CPUs. Below
    the first column it is 0, as nothing says that the job can run there.

    Raises ValueError, one sentence, for shapes that differ, for axes that do not ascend from above 0, and for
    speeds that are negative or not finite or 0 everywhere.
    """

    cpus: Floats
    memory_gib: Floats
    speed: Floats

    def __post_init__(self) -> None:
        for name in ("cpus", "memory_gib"):
            axis = np.array(getattr(self, name), float)
            if axis.ndim != 1 or not len(axis) or not np.isfinite(axis).all() or axis[0] <= 0:
                raise ValueError(f"{name}: {axis.tolist()} is no axis; numbers above 0 are accepted")
            if not (np.diff(axis) > 0).all():
                raise ValueError(
                    f"{name}: {axis.tolist()} does not ascend; each number must be above the one before"
                )
            object.__setattr__(self, name, axis)
        given = np.array(self.speed, float)
        expected = (len(self.cpus), len(self.memory_gib))
        if given.shape != expected:
            raise ValueError(f"speed: has shape {given.shape}; {expected} is accepted, CPUs by memory")
        wrong = ~np.isfinite(given) | (given < 0)
        if wrong.any():
            row, column = (int(at) for at in np.argwhere(wrong)[0])
            raise ValueError(f"speed: {given[row, column]} at row {row}, column {column}; 0 or more is accepted")
        if not given.any():
            raise ValueError("speed: is 0 everywhere; a job must be able to run")
        rising = np.maximum.accumulate(np.maximum.accumulate(given, axis=0), axis=1)
        object.__setattr__(self, "speed", rising)

    def at(self, cpus: Floats, memory_gib: Floats) -> Floats:
        """Return the speed with these CPUs and this memory per GPU, broadcast against each other."""
        c, m = np.broadcast_arrays(np.asarray(cpus, float), np.asarray(memory_gib, float))
        i, up = _between(self.cpus, c)
        j, right = _between(self.memory_gib, m)
        rows, columns = len(self.cpus) - 1, len(self.memory_gib) - 1
        at = self.speed
        over, beside = np.minimum(i + 1, rows), np.minimum(j + 1, columns)
        low = at[i, j] * (1 - right) + at[i, beside] * right
        high = at[over, j] * (1 - right) + at[over, beside] * right
        found: Floats = (low * (1 - up) + high * up) * np.minimum(c / self.cpus[0], 1.0)
        return np.where(m < self.memory_gib[0] * (1 - TOLERANCE), 0.0, found)


def _between(axis: Floats, values: Floats) -> tuple[np.ndarray, Floats]:
    """Return the point of an axis at or below each value, and how far the value is on to the next, 0 to 1."""
    at = np.clip(np.searchsorted(axis, values, side="right") - 1, 0, len(axis) - 1)
    after = np.minimum(at + 1, len(axis) - 1)
    width = np.where(after > at, axis[after] - axis[at], 1.0)
    return at, np.clip((values - axis[at]) / width, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class TabulatedSensitivity:
    """A sensitivity that is looked up, by the number of GPUs.

    grids: number of GPUs -> speed of each of them. For another number the grid of the next smaller one counts, or
    else the smallest. `rate` is the sum over GPUs.

    Raises ValueError without any grid.
    """

    grids: Mapping[int, SpeedGrid]

    def __post_init__(self) -> None:
        if not self.grids or min(self.grids) < 1:
            raise ValueError(f"grids: {sorted(self.grids)} GPUs; at least one number of 1 or more is accepted")

    @property
    def knows_memory(self) -> bool:
        """True: the speed follows memory; see `Sensitivity.knows_memory`."""
        return True

    def times(self, factor: float) -> TabulatedSensitivity:
        """Return the same with all speeds multiplied, as from relative ones to samples/s."""
        grids = {gpus: SpeedGrid(one.cpus, one.memory_gib, factor * one.speed) for gpus, one in self.grids.items()}
        return TabulatedSensitivity(grids)

    def grid(self, gpus: int) -> SpeedGrid:
        """Return the grid that counts for so many GPUs."""
        smaller = [one for one in self.grids if one <= gpus]
        return self.grids[max(smaller) if smaller else min(self.grids)]

    def rate(self, gpus: int, cpus: Floats, memory_gib: Floats) -> Floats:
        """Return the speed of all GPUs together; see `Sensitivity.rate`."""
        return gpus * self.grid(gpus).at(np.asarray(cpus, float) / gpus, np.asarray(memory_gib, float) / gpus)

    def axes(self, gpus: int, step_rate: float = np.inf) -> tuple[Floats, Floats]:
        """Return the points of the grid, for all GPUs together; see `Sensitivity.axes`."""
        grid = self.grid(gpus)
        return gpus * grid.cpus, gpus * grid.memory_gib

    def refusal(self, gpus: int, cpus: float, memory_gib: float) -> str | None:
        """Return that a share is outside the grid; see `Sensitivity.refusal`."""
        grid = self.grid(gpus)
        for name, axis, each in (
            ("cpus", grid.cpus, cpus / gpus),
            ("memory_gib", grid.memory_gib, memory_gib / gpus),
        ):
            if not axis[0] * (1 - TOLERANCE) <= each <= axis[-1] * (1 + TOLERANCE):
                return (
                    f"{name}: a share of {each:g} per GPU is outside what was measured; {axis[0]:g} to "
                    f"{axis[-1]:g} is accepted"
                )
        return None
