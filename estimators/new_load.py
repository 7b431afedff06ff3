"""How many GPUs new jobs of a team will ask for in a window (Anticipatory Resource Allocation, section 5.2)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

RECENT = 10  # windows that are looked back on; the paper says a few


@dataclass
class TeamArrivals:
    """Submissions of one team. times_s: of each, ascending; totals: GPUs of all before each, and of all."""

    times_s: list[float] = field(default_factory=list)
    totals: list[float] = field(default_factory=lambda: [0.0])

    @classmethod
    def of(cls, times_s: Iterable[float], gpus: Iterable[float]) -> TeamArrivals:
        """Return the arrivals at times, in any order, that ask for so many GPUs."""
        found = cls()
        for at_s, asked in sorted(zip(times_s, gpus, strict=True)):
            found.add(at_s, asked)
        return found

    def add(self, at_s: float, gpus: float) -> None:
        """Note a job. One that was submitted before the newest counts as of the same time."""
        self.times_s.append(max(at_s, self.times_s[-1]) if self.times_s else at_s)
        self.totals.append(self.totals[-1] + gpus)

    def forget(self, before_s: float) -> None:
        """Drop what was submitted before a time."""
        gone = bisect_left(self.times_s, before_s)
        self.times_s, self.totals = self.times_s[gone:], self.totals[gone:]

    def after(self, now: float, until: float) -> float:
        """Return the GPUs asked for after `now` and before `until`."""
        first = bisect_right(self.times_s, now)
        return self.totals[max(bisect_left(self.times_s, until), first)] - self.totals[first]

    def estimate(self, now: float, window_s: float, recent: int = RECENT) -> float:
        """Return the most that was asked for in one of the last windows, the last up to `now`; inf: nothing came.

        It is no bound: a burst beyond any of these windows breaks it.
        """
        ends = [bisect_right(self.times_s, now - window_s * back) for back in range(recent + 1)]
        if not ends[0]:
            return math.inf
        return max(self.totals[late] - self.totals[early] for late, early in pairwise(ends))


def by_team(times_s: Iterable[float], gpus: Iterable[float], teams: Iterable[str]) -> Mapping[str, TeamArrivals]:
    """Return the arrivals of each team, by jobs in any order."""
    found: dict[str, TeamArrivals] = {}
    for at_s, asked, team in sorted(zip(times_s, gpus, teams, strict=True)):
        found.setdefault(team, TeamArrivals()).add(at_s, asked)
    return dict(sorted(found.items()))
