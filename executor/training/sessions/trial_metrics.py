"""Metrics that a script reports of several trials at once: a number of each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from ..fused.trial_number import TrialNumber
from .metrics import MOST_METRICS, MOST_NAME, WAYS, as_number


class TrialMetrics:
    """What was reported since it was last taken, by name."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, metrics: Mapping[str, Any], how: Mapping[str, str], trials: int) -> None:
        """Take note of metrics; a plain number counts for each of the trials.

        Raises ValueError or TypeError, in one sentence, for what is no metric.
        """
        for name, way in how.items():
            if way not in WAYS:
                raise ValueError(f"report: {name}: {way!r} is no way to combine it; {', '.join(WAYS)} are")
        found = {name: numbers_of(name, value, trials) for name, value in metrics.items()}
        if len(self._values | found) > MOST_METRICS:
            raise ValueError(f"report: more than {MOST_METRICS} different metrics")
        if (long := next((name for name in found if len(name) > MOST_NAME), None)) is not None:
            raise ValueError(
                f"report: the name {long[:40]}… has {len(long)} characters; at most {MOST_NAME} are kept"
            )
        self._values |= found

    def taken(self) -> dict[str, list[float]]:
        """Return what was reported, by name, a number of each trial; it is not returned again."""
        found, self._values = self._values, {}
        return found


def numbers_of(name: str, value: Any, trials: int) -> list[float]:
    """Return the numbers of trials that a reported value stands for. Raises TypeError for what is no number."""
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, TrialNumber):
        return [as_number(name, one) for one in value.values]
    return [as_number(name, value)] * trials


def best_first(values: Sequence[float], most: bool) -> list[int]:
    """Return places of values, the best first: the largest if `most`, else the least; NaN comes last."""
    return sorted(range(len(values)), key=lambda i: (values[i] != values[i], -values[i] if most else values[i], i))
