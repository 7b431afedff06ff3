"""What ending by when is worth: a step function of completion time that falls. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from .wording import span

MOST_WORTH = 100.0  # of ending in time, unless an operator allows more
# Part of the deadline, and what ending by then is worth (UniSched, section VI-A).
SOFT = ((1.0, 100.0), (1.1, 80.0), (1.2, 50.0), (1.5, 20.0))
_CLOCK_S = 1e-6  # by which sums of seconds may be off


class OnMissed(StrEnum):
    """What becomes of a job whose last deadline has passed; the values are stable."""

    BEST_EFFORT = "best-effort"  # it goes on as a job without a deadline
    CANCEL = "cancel"  # it saves and ends


@dataclass(frozen=True)
class Rewards:
    """Steps: ending by `by_s` seconds after submission is worth `worth`; after the last step, nothing.

    Raises ValueError, in one sentence, for steps that do not rise in time or do not fall in worth.
    """

    by_s: tuple[float, ...]
    worth: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.by_s or len(self.by_s) != len(self.worth):
            raise ValueError(
                f"{len(self.by_s)} deadlines and {len(self.worth)} worths; as many of both are accepted"
            )
        for by_s, worth in zip(self.by_s, self.worth, strict=True):
            if not math.isfinite(by_s):
                raise ValueError(f"a deadline of {by_s:g} s is not accepted; it must be finite")
            if not 0 < worth < math.inf:
                raise ValueError(f"a worth of {worth:g} is not accepted; it must be above 0")
        for before, after in zip(self.by_s, self.by_s[1:], strict=False):
            if after <= before:
                raise ValueError(f"a deadline of {span(after)} follows {span(before)}; deadlines must rise")
        for before, after in zip(self.worth, self.worth[1:], strict=False):
            if after >= before:
                raise ValueError(f"a worth of {after:g} follows {before:g}; worth must fall from step to step")

    @classmethod
    def strict(cls, by_s: float, worth: float = MOST_WORTH) -> Rewards:
        """Return what is worth all until a deadline, and nothing after it."""
        return cls((by_s,), (worth,))

    @classmethod
    def soft(cls, by_s: float, most: float = MOST_WORTH) -> Rewards:
        """Return what is worth 100, 80, 50 and 20 of 100 by 1, 1.1, 1.2 and 1.5 times a deadline."""
        return cls(tuple(part * by_s for part, _ in SOFT), tuple(most * worth / 100.0 for _, worth in SOFT))

    @classmethod
    def of(cls, steps: Iterable[tuple[float, float]]) -> Rewards:
        """Return steps of (seconds, worth). Raises ValueError as the class does, and for what is no later time."""
        listed = list(steps)
        for by_s, _ in listed:
            if not by_s > 0:
                raise ValueError(f"a deadline of {by_s:g} s is not after submission; one above 0 s is accepted")
        return cls(tuple(by_s for by_s, _ in listed), tuple(worth for _, worth in listed))

    def later(self, by_s: float) -> Rewards:
        """Return the same steps, counted from a moment that lies so many seconds before."""
        return self if by_s == 0 else Rewards(tuple(one + by_s for one in self.by_s), self.worth)

    @property
    def most(self) -> float:
        """What ending by the first deadline is worth."""
        return self.worth[0]

    @property
    def last_s(self) -> float:
        """Seconds after submission from which ending is worth nothing."""
        return self.by_s[-1]

    def at(self, jct_s: float) -> float:
        """Return what ending so many seconds after submission is worth."""
        step = bisect_left(self.by_s, jct_s - _CLOCK_S)
        return self.worth[step] if step < len(self.worth) else 0.0

    def next_s(self, age_s: float) -> float:
        """Return the next deadline in seconds after submission, of a job of that age; inf: all have passed."""
        step = bisect_left(self.by_s, age_s - _CLOCK_S)
        return self.by_s[step] if step < len(self.by_s) else math.inf
