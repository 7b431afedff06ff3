"""Clocks that decide when the rounds of a run are, and let time pass up to the next one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..traces.tables import Floats


class Passing(Protocol):
    """A run as its clock sees it. All times are seconds of the trace."""

    @property
    def now_s(self) -> float:
        """Return the time now."""

    @property
    def active(self) -> int:
        """Return how many jobs have arrived and not ended."""

    def next_arrival_s(self) -> float:
        """Return when the next job arrives; inf: none does."""

    def asked_again_s(self) -> float:
        """Return when the policy, or who lets nodes sleep, asked to be called again; inf: nobody did."""

    def boundaries_s(self) -> Floats:
        """Return (running jobs,) when each reaches the next boundary of its world."""

    def expected_end_s(self) -> float:
        """Return when the first running job would end at its rate of now; inf: none runs."""

    def pass_until(self, until_s: float, *, or_change: bool = False) -> bool:
        """Let time pass, and return whether a node failed or came back.

        `or_change`: stop at the first of these.
        """


class RoundClock(Protocol):
    """Decides when the next round is."""

    def to_round(self, run: Passing) -> None:
        """Let time pass up to the next round, and not beyond it."""


@dataclass(frozen=True)
class AtIntervals:
    """Hold a round every `interval_s` while there are jobs, beginning at a multiple of it from `first_s` on.

    A round that the policy asked for counts, as live: the next comes `interval_s` after it.
    """

    interval_s: float
    first_s: float = 0.0

    def to_round(self, run: Passing) -> None:
        """Go on to the next multiple, or to when the policy asked for."""
        due = run.now_s + self.interval_s
        if not run.active:  # the first round at or after the next arrival
            arrival = np.ceil((run.next_arrival_s() - self.first_s) / self.interval_s) * self.interval_s
            due = max(due, float(arrival) + self.first_s)
        run.pass_until(min(due, run.asked_again_s()))


@dataclass(frozen=True)
class AtEvents:
    """Hold a round whenever a job arrives or reaches a boundary, and whenever a node fails or comes back."""

    def to_round(self, run: Passing) -> None:
        """Go on to the next event, or to when the policy asked for."""
        boundaries_s = run.boundaries_s()
        first_s = float(boundaries_s.min()) if len(boundaries_s) else np.inf
        run.pass_until(min(run.next_arrival_s(), first_s, run.asked_again_s()), or_change=True)


@dataclass(frozen=True)
class EarlyRounds:
    """Hold a round `interval_s` after the last one, and `early_s` after a job arrives or ends, as live.

    A node that fails or comes back starts a round early, too.
    """

    interval_s: float
    early_s: float

    def to_round(self, run: Passing) -> None:
        """Go on to the next round; jobs that end on the way bring it forward."""
        due = min(run.next_arrival_s() + self.early_s, run.asked_again_s())
        if run.active:
            due = min(due, run.now_s + self.interval_s)
        due = max(due, run.now_s)
        while run.now_s < due:
            count = run.active
            changed = run.pass_until(min(due, run.expected_end_s()))
            if run.active < count or changed:
                due = max(min(due, run.now_s + self.early_s), run.now_s)
