"""How many GPUs new jobs of a team will ask for in a window (Anticipatory Resource Allocation, section 5.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RECENT = 10  # windows that are looked back on; the paper says a few


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Submissions of one team. times_s: (jobs,) ascending; total: (jobs + 1,) GPUs of all before each."""

    times_s: Floats
    total: Floats

    @classmethod
    def of(cls, times_s: Sequence[float] | Floats, gpus: Sequence[float] | Floats) -> Arrivals:
        """Return the arrivals at times, in any order, that ask for so many GPUs."""
        order = np.argsort(np.asarray(times_s, float), kind="stable")
        asked = np.asarray(gpus, float)[order]
        return cls(np.asarray(times_s, float)[order], np.concatenate([[0.0], np.cumsum(asked)]))

    def after(self, now: float, until: float) -> float:
        """Return the GPUs asked for after `now` and before `until`."""
        first = np.searchsorted(self.times_s, now, side="right")
        return float(self.total[max(np.searchsorted(self.times_s, until, side="left"), first)] - self.total[first])

    def estimate(self, now: float, window_s: float, recent: int = RECENT) -> float:
        """Return the most that was asked for in one of the last windows, the last up to `now`; inf: nothing came.

        It is no bound: a burst beyond any of these windows breaks it.
        """
        ends = np.searchsorted(self.times_s, now - window_s * np.arange(recent + 1), side="right")
        if not ends[0]:
            return math.inf
        return float(np.max(self.total[ends[:-1]] - self.total[ends[1:]]))


def by_team(
    times_s: Floats, gpus: Sequence[float] | NDArray[np.int64], teams: Sequence[str]
) -> Mapping[str, Arrivals]:
    """Return the arrivals of each team. All are (jobs,)."""
    asked, of = np.asarray(gpus, float), np.array(teams, object)
    return {team: Arrivals.of(times_s[of == team], asked[of == team]) for team in sorted(set(teams))}
