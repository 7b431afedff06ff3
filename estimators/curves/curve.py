"""A learning curve: what a metric was at points of the training. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST_POINTS = 128  # of a curve; from then on every second of the older half goes
_BESIDE = 2  # points on either side that a spike is compared with
_SPIKE = 8.0  # times the usual distance from the neighbours
_LEAST_SPIKE = 0.1  # of the range of all points but the outermost


@dataclass(frozen=True)
class Curve:
    """Finite values of one metric. `at`: where in the training, ascending; `values` as many.

    The positions are progress, in samples at the initial batch size or epochs, so that they mean the same in
    another run of the script.

    Raises:
        ValueError: for positions that do not ascend from above 0, and for numbers that are not finite.
    """

    at: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.at) != len(self.values):
            raise ValueError(f"curve: {len(self.at)} positions and {len(self.values)} values, must be as many")
        if not all(map(math.isfinite, (*self.at, *self.values))):
            raise ValueError("curve: positions and values must be finite")
        if any(late <= early for early, late in zip((0.0, *self.at), self.at, strict=False)):
            raise ValueError(f"curve: positions {list(self.at)} must ascend from above 0")

    @classmethod
    def of(cls, points: Iterable[Sequence[float]]) -> Curve:
        """Return the curve of (position, value) pairs, in the order in which they were measured."""
        found = cls()
        for at, value in points:
            found = found.with_point(at, value)
        return found

    def __len__(self) -> int:
        return len(self.at)

    @property
    def points(self) -> list[list[float]]:
        """The pairs that `of` takes."""
        return [list(pair) for pair in zip(self.at, self.values, strict=True)]

    @property
    def spacing(self) -> float:
        """The usual progress from one point to the next."""
        return float(np.median(np.diff((0.0, *self.at))))

    def rewound(self, at: float) -> Curve:
        """Return the curve up to a restored checkpoint; what was measured beyond it is measured again."""
        keep = sum(position <= at for position in self.at)
        return self if keep == len(self.at) else Curve(self.at[:keep], self.values[:keep])

    def with_point(self, at: float, value: float) -> Curve:
        """Return the curve with what was measured now, without points that lie there or beyond.

        A value that is not finite is left out, as is one before any progress.
        """
        keep = sum(position < at for position in self.at)
        if not (at > 0 and math.isfinite(at) and math.isfinite(value)):
            return self.rewound(at) if math.isfinite(at) else self
        places, values = (*self.at[:keep], at), (*self.values[:keep], value)
        if len(places) > MOST_POINTS:
            half = MOST_POINTS // 2
            places = (*places[1:half:2], *places[half:])
            values = (*values[1:half:2], *values[half:])
        return Curve(places, values)

    def without_spikes(self) -> Curve:
        """Return the curve without single points far above or far below all of their neighbours."""
        count = len(self)
        if count < 2 * _BESIDE + 1:
            return self
        values = np.array(self.values)
        low, high = np.quantile(values, (0.1, 0.9))
        beside = np.full((count, 2 * _BESIDE), np.nan)
        for column, shift in enumerate(s for s in range(-_BESIDE, _BESIDE + 1) if s):
            of = np.arange(count) + shift
            inside = (of >= 0) & (of < count)
            beside[inside, column] = values[of[inside]]
        usual = float(np.median(np.abs(values - np.nanmedian(beside, axis=1))))
        least = max(_SPIKE * usual, _LEAST_SPIKE * float(high - low))
        above = values > np.nanmax(beside, axis=1) + least
        below = values < np.nanmin(beside, axis=1) - least
        spike = above | below
        spike[0] = False  # a curve may rise steeply at its start
        if not spike.any():
            return self
        return Curve(*(tuple(np.array(part)[~spike].tolist()) for part in (self.at, self.values)))


@dataclass(frozen=True)
class MetricCurve:
    """The curve of the metric that a job's target names; "": it has none."""

    metric: str = ""
    curve: Curve = Curve()

    def to_row(self) -> dict[str, Any]:
        """Return it as plain JSON values; {}: nothing is known."""
        return {"metric": self.metric, "points": self.curve.points} if self.metric else {}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> MetricCurve:
        """Return what `to_row` wrote. Raises: KeyError, TypeError or ValueError for anything else."""
        return cls(str(row["metric"]), Curve.of(row["points"])) if row else NO_CURVE


NO_CURVE = MetricCurve()
