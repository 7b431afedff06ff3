"""Rolling means of how long jobs took, by owner, name and size. The newest job weighs most."""

from __future__ import annotations

import math
from dataclasses import dataclass

Key = tuple[str | int | float, ...]


@dataclass(slots=True)
class Rolling:
    """What ended jobs of one group took, in the order in which they ended.

    weight, weighted_s, weighted_log: sums in which each job weighs `decay` times as much as the next.
    """

    weight: float = 0.0
    weighted_s: float = 0.0
    weighted_log: float = 0.0
    sum_s: float = 0.0
    sum_log: float = 0.0
    sum_log_squares: float = 0.0
    count: int = 0
    last_s: float = math.nan
    ended_s: float = math.nan  # when the last of them ended

    def add(self, seconds: float, ended_s: float, decay: float) -> None:
        """Count a job that has ended."""
        log = math.log(max(seconds, 1.0))
        self.weight = self.weight * decay + 1.0
        self.weighted_s = self.weighted_s * decay + seconds
        self.weighted_log = self.weighted_log * decay + log
        self.sum_s += seconds
        self.sum_log += log
        self.sum_log_squares += log * log
        self.count += 1
        self.last_s, self.ended_s = seconds, ended_s

    @property
    def newest_mean_s(self) -> float:
        """Return the mean in which the newest job weighs most."""
        return self.weighted_s / self.weight

    @property
    def mean_s(self) -> float:
        """Return the plain mean."""
        return self.sum_s / self.count


class RollingLengths:
    """Groups of ended jobs by key.

    Args:
        decay: weight of a job beside that of the next in its group, 0..1; 1: all alike.

    Raises:
        ValueError: for a decay outside of 0..1.
    """

    def __init__(self, decay: float) -> None:
        if not 0 <= decay <= 1:
            raise ValueError(f"decay: {decay} is not accepted, must be from 0 to 1")
        self._decay = decay
        self._groups: dict[Key, Rolling] = {}

    def add(self, key: Key, seconds: float, ended_s: float) -> None:
        """Count a job of a group that has ended."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Rolling()
        group.add(seconds, ended_s, self._decay)

    def of(self, key: Key) -> Rolling | None:
        """Return a group; None: no job of it has ended."""
        return self._groups.get(key)
