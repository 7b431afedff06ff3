"""Measured step times of a model on a GPU type, for any placement.

The tables are those of Pollux and Sia. `placements-*.csv` holds step times of exact shapes (replicas per node),
and `scalability-*.csv` those of larger, even spreads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.interpolate import LinearNDInterpolator
from scipy.spatial import QhullError

from ..traces.tables import Floats, numbers, read_rows

Shape = tuple[int, ...]  # replicas on each node


@dataclass(frozen=True)
class StepTime:
    """One optimizer step without accumulation.

    `step_s`: the whole step.
    `sync_s`: the part of it that waits for gradients.
    """

    step_s: float
    sync_s: float

    @property
    def pass_s(self) -> float:
        """Seconds of one forward and backward pass without all-reduce."""
        return self.step_s - self.sync_s


Row = tuple[int, int, int, StepTime]  # nodes, replicas, local batch size


def canonical(shape: Sequence[int]) -> Shape:
    """Return the name of a shape in the tables: its lexicographically smallest rotation.

    Nodes without replicas are left out.
    """
    return _canonical(tuple(shape))


@lru_cache(maxsize=65_536)
def _canonical(shape: Shape) -> Shape:
    held = tuple(count for count in shape if count)
    return min((held[i:] + held[:i] for i in range(len(held))), default=())


@dataclass(eq=False)
class StepTimes:
    """Step times of one model on one GPU type.

    A measured shape is interpolated linearly between its local batch sizes. Other shapes are interpolated
    between (nodes, replicas, local batch size) of all rows. Rows of the same nodes and replicas are averaged
    there.
    """

    name: str  # for messages: model on GPU type
    shapes: Mapping[Shape, tuple[Floats, Floats]]  # shape -> (sizes, (rows, 2) step and sync times)
    points: Floats  # (rows, 3) nodes, replicas, local batch size
    times: Floats  # (rows, 2)
    _cloud: Callable[[Floats], Floats] | None = field(default=None, repr=False)
    _sizes: dict[Shape, tuple[float, float]] = field(default_factory=dict, repr=False)
    _seen: dict[tuple[Shape, float], StepTime] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, folder: Path, suffix: str) -> StepTimes:
        """Read `placements-<suffix>.csv` and `scalability-<suffix>.csv` of a model's folder.

        Raise ValueError for a file that is missing, lacks a column or holds a time that no step can take.
        """
        name = f"{folder.name} on {suffix}"
        codes, *placed = _columns(folder / f"placements-{suffix}.csv", "placement")
        nodes, replicas, *spread = _columns(folder / f"scalability-{suffix}.csv", "num_nodes", "num_replicas")
        by_shape: dict[Shape, list[tuple[float, float, float]]] = {}
        for code, size, step, sync in zip(codes, *placed, strict=True):
            shape = canonical([int(digit) for digit in str(int(code))])
            by_shape.setdefault(shape, []).append((size, step, sync))
        tables: dict[Shape, tuple[Floats, Floats]] = {}
        pooled: dict[tuple[float, float, float], list[tuple[float, float]]] = {}
        for shape, rows in by_shape.items():
            table = np.array(sorted(rows))
            sizes, first = np.unique(table[:, 0], return_index=True)
            tables[shape] = sizes, table[first, 1:]
            for size, step, sync in rows:
                pooled.setdefault((float(len(shape)), float(sum(shape)), size), []).append((step, sync))
        keys = sorted(pooled)
        points = np.array(keys, float).reshape(-1, 3)
        times = np.array([np.mean(pooled[key], axis=0) for key in keys], float).reshape(-1, 2)
        points = np.concatenate([points, np.stack([nodes, replicas, spread[0]], axis=1)])
        times = np.concatenate([times, np.stack(spread[1:], axis=1)])
        return cls(name, tables, points, times)

    def sizes(self, shape: Sequence[int]) -> tuple[float, float]:
        """Return the smallest and largest local batch size that `at` knows for a shape.

        Raise ValueError if it knows none.
        """
        key = canonical(shape)
        found = self._sizes.get(key)
        if found is None:
            table = self.shapes.get(key)
            sizes = table[0] if table is not None else np.unique(self.points[:, 2])
            if table is None:
                sizes = sizes[np.isfinite(self._between(key, sizes)[:, 0])]
            if not len(sizes):
                raise ValueError(f"{self.name}: nothing like {key} replicas per node was measured")
            found = self._sizes[key] = float(sizes[0]), float(sizes[-1])
        return found

    def samples(self) -> Iterator[tuple[Shape, int]]:
        """Yield every shape and local batch size with a row of its own."""
        for shape, (sizes, _) in self.shapes.items():
            for size in sizes.tolist():
                yield shape, int(size)

    def rows(self) -> Iterator[Row]:
        """Yield everything that was measured; shapes of the same nodes and replicas are one."""
        for (nodes, replicas, size), (step_s, sync_s) in zip(
            self.points.tolist(), self.times.tolist(), strict=True
        ):
            yield int(nodes), int(replicas), int(size), StepTime(step_s, sync_s)

    def at(self, shape: Sequence[int], local_bsz: float) -> StepTime:
        """Return the step time of a shape. Raise ValueError outside of what was measured."""
        key = canonical(shape), float(local_bsz)
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = self._look_up(*key)
        return found

    def _look_up(self, shape: Shape, local_bsz: float) -> StepTime:
        table = self.shapes.get(shape)
        if table is not None and table[0][0] <= local_bsz <= table[0][-1]:
            sizes, times = table
            step, sync = (float(np.interp(local_bsz, sizes, column)) for column in times.T)
        else:
            step, sync = self._between(shape, np.array([local_bsz]))[0].tolist()
        if not math.isfinite(step + sync):
            raise ValueError(f"{self.name}: {shape} replicas with {local_bsz:g} samples each were not measured")
        return StepTime(step, sync)

    def _between(self, shape: Shape, sizes: Floats) -> Floats:
        """Return (sizes, 2) step and sync times between the rows of all shapes; nan outside of them."""
        if self._cloud is None:
            try:
                self._cloud = LinearNDInterpolator(self.points, self.times)
            except QhullError:  # all points lie on one plane, for instance if one node was measured
                self._cloud = _nowhere
        at = np.stack([np.full(len(sizes), len(shape)), np.full(len(sizes), sum(shape)), sizes], axis=1)
        return np.asarray(self._cloud(at), float)


def _nowhere(at: Floats) -> Floats:
    """Return (len(at), 2) nan, for measurements that span no volume."""
    return np.full((len(at), 2), np.nan)


def _columns(path: Path, *keys: str) -> list[Floats]:
    """Return the columns `keys`, then local batch size, step time and sync time."""
    rows = read_rows(path, (*keys, "local_bsz", "step_time", "sync_time"))
    counts = [numbers(path, rows, name, least=1, whole=True) for name in (*keys, "local_bsz")]
    return [*counts, numbers(path, rows, "step_time", least=1e-9), numbers(path, rows, "sync_time", least=0)]
