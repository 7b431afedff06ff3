"""Metrics that a script reports, and one value of each for all replicas. Pure."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

from ....core.reports import MeasuredAt

WAYS = ("mean", "sum", "min", "max", "last")
MOST_METRICS = 1000
MOST_NAME = 200


class Metrics:
    """What one replica has reported, the newest value of each name, and how each is combined."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.ways: dict[str, str] = {}
        self.over: dict[str, float] = {}  # what means are over, where that was seen
        # Of sums over a replica's samples, divided by the number of all: what each is subtracted from, 1 or 0.
        self.parts: dict[str, float] = {}
        self.at: dict[str, MeasuredAt] = {}  # where in the training each was reported
        self.fresh: set[str] = set()  # names reported since they were last combined
        self.combined: dict[str, float] = {}

    def add(self, metrics: Mapping[str, Any], how: Mapping[str, str], at: MeasuredAt) -> None:
        """Take note of metrics that were measured at a point of the training.

        Raises ValueError or TypeError, in one sentence, for what is no metric or no way to combine it.
        """
        for name, way in how.items():
            if way not in WAYS:
                raise ValueError(f"report: {name}: {way!r} is no way to combine it; {', '.join(WAYS)} are")
            if name not in metrics:
                raise ValueError(f"report: combine names {name}, which is not reported with it")
        found = {name: as_number(name, value) for name, value in metrics.items()}
        if len(self.values | found) > MOST_METRICS:
            raise ValueError(f"report: more than {MOST_METRICS} different metrics")
        if (long := next((name for name in found if len(name) > MOST_NAME), None)) is not None:
            raise ValueError(
                f"report: the name {long[:40]}… has {len(long)} characters; at most {MOST_NAME} are kept"
            )
        self.values |= found
        self.ways |= how
        self.at |= dict.fromkeys(found, at)
        self.fresh |= found.keys()


def as_number(name: str, value: Any) -> float:
    """Return a metric as a number; whole numbers stay whole. Raises TypeError for anything else."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int):
        return value
    try:
        if isinstance(value, numbers.Integral):
            return int(value)
        item = value.item() if hasattr(value, "item") else value
        return item if isinstance(item, int) and not isinstance(item, bool) else float(item)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"report: {name} is a {type(value).__name__}; a number or a tensor of one element is accepted"
        ) from None


def combine(values: Sequence[Any], weights: Sequence[float], how: str = "mean") -> Any:
    """Return one value for all replicas: `weights` are their samples. "last" is rank 0's.

    Raises ValueError for an unknown `how`, or where there are no values.
    """
    if how not in WAYS:
        raise ValueError(f"combine: {how!r} is no way; {', '.join(WAYS)} are")
    if how == "last":
        return values[0]
    if how == "min":
        return min(values, key=_nan_first)
    if how == "max":
        return max(values, key=_nan_last)
    if how == "sum":
        return sum(values[1:], values[0])
    if all(value is values[0] or value == values[0] for value in values):
        return values[0]
    whole = math.fsum(weights)
    return sum(value * (weight / whole) for value, weight in zip(values, weights, strict=True))


def combine_reports(
    reports: Sequence[tuple[Mapping[str, float], Mapping[str, str], float, Mapping[str, float]]],
    samples: Sequence[int],
) -> tuple[dict[str, float], list[str]]:
    """Return one value of each metric, and sentences on what is odd.

    `reports` has each rank's values, ways, weight, and what means are over. `samples` is how many each was
    given.
    By default a metric is a mean over samples. Whole numbers that differ between replicas are counts. So are
    those that equal a replica's samples. Counts are added up.
    """
    names = list(dict.fromkeys(name for values, *_ in reports for name in values))
    combined: dict[str, float] = {}
    odd: list[str] = []
    for name in names:
        having = [place for place, (values, *_) in enumerate(reports) if name in values]
        values = [reports[place][0][name] for place in having]
        over = [reports[place][3].get(name) for place in having]
        weights = weights_of([reports[place][2] for place in having], over)
        how = next((reports[place][1][name] for place in having if name in reports[place][1]), "")
        if not how:
            how = "sum" if is_count(values, [samples[place] for place in having]) else "mean"
        combined[name] = combine(values, weights, how)
        if len(having) not in (1, len(reports)):
            odd.append(f"{name} is reported by {len(having)} of {len(reports)} replicas only; theirs are combined")
    return combined, odd


def weights_of(samples: Sequence[float], over: Sequence[float | None]) -> list[float]:
    """Return the weights of replicas' means: what they are over where all have seen that, else their samples."""
    seen = [count for count in over if count is not None]
    return seen if len(seen) == len(over) and sum(seen) > 0 else list(samples)


def is_count(values: Sequence[float], samples: Sequence[int]) -> bool:
    """Return whether these are whole numbers of which each replica has its share."""
    if len(values) < 2 or not all(isinstance(value, int) for value in values):
        return False
    return len(set(values)) > 1 or list(values) == list(samples)


def _nan_first(value: Any) -> tuple[bool, Any]:
    return (value == value, value)


def _nan_last(value: Any) -> tuple[bool, Any]:
    return (value != value, value)
