"""Measured step times of one job on one GPU type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_COUNTS = ("nodes", "replicas", "local_bsz", "accumulation", "count")
_TIMES = ("step_time_s", "sync_time_s")


class Row(Protocol):
    """What a measured row must have; `core.reports.StepRow` does."""

    @property
    def nodes(self) -> int: ...
    @property
    def replicas(self) -> int: ...
    @property
    def local_bsz(self) -> int: ...
    @property
    def accumulation(self) -> int: ...
    @property
    def step_time_s(self) -> float: ...
    @property
    def sync_time_s(self) -> float: ...
    @property
    def count(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Profile:
    """Columns of equal length, one row per (nodes, replicas, local_bsz, accumulation, densest).

    Times are seconds, means over `count` optimizer steps; `sync_time_s` is the part of a step spent waiting for
    gradients. `densest` is the number of replicas on the fullest node (even spread where not given).

    Raises ValueError with the column, row and value for anything a step cannot have measured.
    """

    nodes: Ints
    replicas: Ints
    local_bsz: Ints
    accumulation: Ints
    step_time_s: Floats
    sync_time_s: Floats
    count: Ints
    densest: Ints

    def __post_init__(self) -> None:
        for name in (*_COUNTS, "densest"):
            column = np.asarray(getattr(self, name))
            if column.size and not np.all(np.isfinite(column) & (column == np.floor(column))):
                raise ValueError(f"{name}: {column.tolist()} are not all whole numbers")
            self._set(name, column.astype(np.int64))
        for name in _TIMES:
            self._set(name, np.asarray(getattr(self, name), np.float64))
        shapes = {name: getattr(self, name).shape for name in (*_COUNTS, *_TIMES, "densest")}
        if len(set(shapes.values())) > 1 or self.nodes.ndim != 1:
            raise ValueError(f"profile: columns must be 1-D and of one length, got {shapes}")
        self._check("nodes", self.nodes >= 1, "at least 1")
        self._check("replicas", self.replicas >= self.nodes, "at least one per node")
        self._check("local_bsz", self.local_bsz >= 1, "at least 1")
        self._check("accumulation", self.accumulation >= 0, "0 or more")
        self._check("count", self.count >= 1, "at least 1")
        self._check("step_time_s", np.isfinite(self.step_time_s) & (self.step_time_s > 0), "a time above 0 s")
        within = (self.sync_time_s >= 0) & (self.sync_time_s <= self.step_time_s)
        self._check("sync_time_s", within, "between 0 s and the step time")
        least = -(-self.replicas // np.maximum(self.nodes, 1))
        possible = (self.densest >= least) & (self.densest <= self.replicas - self.nodes + 1)
        self._check("densest", possible, "a node's share of the replicas")

    def same_as(self, other: Profile) -> bool:
        """Return whether both hold the same rows in the same order."""
        return self is other or all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in (*_COUNTS, *_TIMES, "densest")
        )

    def _set(self, name: str, column: NDArray[Any]) -> None:
        column = column.copy()
        column.flags.writeable = False
        object.__setattr__(self, name, column)

    def _check(self, name: str, valid: NDArray[np.bool_], accepted: str) -> None:
        if not valid.all():
            row = int(np.flatnonzero(~valid)[0])
            raise ValueError(f"{name}[{row}]: {getattr(self, name)[row]} is not accepted, must be {accepted}")

    @classmethod
    def of(cls, rows: Iterable[Row], densest: Sequence[int] | None = None) -> Profile:
        """Return rows as columns; equal keys become one row, their times weighted by `count`."""
        rows = list(rows)
        columns = {name: np.array([getattr(row, name) for row in rows]) for name in (*_COUNTS, *_TIMES)}
        return cls.from_columns(columns, densest)

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any], densest: Sequence[int] | None = None) -> Profile:
        arrays = {name: np.asarray(columns[name]) for name in (*_COUNTS, *_TIMES)}
        if densest is None:
            with np.errstate(divide="ignore", invalid="ignore"):
                even = np.ceil(arrays["replicas"] / np.maximum(arrays["nodes"], 1))
        else:
            even = np.asarray(densest)
        return cls(**arrays, densest=even)._distinct()

    @classmethod
    def empty(cls) -> Profile:
        return cls.of(())

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def _keys(self) -> NDArray[np.int64]:
        return np.stack([self.nodes, self.replicas, self.local_bsz, self.accumulation, self.densest], axis=1)

    def _distinct(self) -> Profile:
        if len(self) == 0:
            return self
        keys, group = np.unique(self._keys, axis=0, return_inverse=True)
        group = group.ravel()
        count = np.bincount(group, self.count)

        def mean(times: Floats) -> Floats:
            return np.bincount(group, times * self.count) / count

        step = mean(self.step_time_s)
        nodes, replicas, local_bsz, accumulation, densest = keys.T
        return Profile(
            nodes, replicas, local_bsz, accumulation, step, np.minimum(mean(self.sync_time_s), step),
            count.astype(np.int64), densest,
        )  # fmt: skip

    def merge(self, other: Profile) -> Profile:
        """Return both profiles as one; rows with the same key become one, weighted by `count`."""
        columns = (*_COUNTS, *_TIMES, "densest")
        joined = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in columns}
        return Profile(**joined)._distinct()

    def completed_by(self, other: Profile) -> Profile:
        """Return it with the rows of `other` whose key has none here; this very profile where there are none."""
        mine = set(map(tuple, self._keys.tolist()))
        missing = [tuple(key) not in mine for key in other._keys.tolist()]
        return self.merge(other.select(np.array(missing))) if any(missing) else self

    def select(self, mask: NDArray[np.bool_]) -> Profile:
        """Return the rows where `mask` holds."""
        return Profile(**{name: getattr(self, name)[mask] for name in (*_COUNTS, *_TIMES, "densest")})

    @property
    def max_replicas(self) -> int:
        return int(self.replicas.max()) if len(self) else 0

    def to_json(self) -> dict[str, list[float]]:
        return {name: getattr(self, name).tolist() for name in (*_COUNTS, *_TIMES, "densest")}

    @classmethod
    def from_json(cls, values: Mapping[str, Sequence[float]]) -> Profile:
        """Read what `to_json` wrote. Raises ValueError for missing columns and impossible values."""
        if missing := sorted({*_COUNTS, *_TIMES} - set(values)):
            raise ValueError(f"profile: columns {missing} are missing")
        return cls.from_columns(values, values.get("densest"))  # type: ignore[arg-type]
