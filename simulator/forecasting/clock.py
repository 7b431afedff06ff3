"""Rounds that lie further apart the further ahead they are, so that a forecast ends in time."""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.round_clock import EarlyRounds, Passing

EARLY_PART = 4  # an early round comes within this part of the interval of then


@dataclass(frozen=True)
class WideningRounds:
    """Hold rounds as live at first, and rarer ones later.

    from_s: when the forecast begins, by the clock of the run.
    near: rounds that are as live; later ones are as far apart as this part of the time since the beginning.
    """

    from_s: float
    interval_s: float
    early_s: float
    near: int = 20

    def to_round(self, run: Passing) -> None:
        """Go on to the next round."""
        ahead_s = (run.now_s - self.from_s) / self.near
        if ahead_s <= self.interval_s:
            interval_s, early_s = self.interval_s, self.early_s
        else:
            interval_s, early_s = ahead_s, max(self.early_s, (ahead_s - self.interval_s) / EARLY_PART)
        EarlyRounds(interval_s, early_s).to_round(run)
