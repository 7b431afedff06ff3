"""Remembers how long each phase of the last rounds took, so that an operator sees which one is slow."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import median

from ...core.schemas import PhaseRow
from .hooks import CycleHook

MOST_ROUNDS = 100


class PhaseTimes(CycleHook):
    """Keeps the times of the last cycles that had a round."""

    def __init__(self) -> None:
        self._rounds: deque[Mapping[str, float]] = deque(maxlen=MOST_ROUNDS)

    def stepped(self, timings: Mapping[str, float]) -> None:
        """Remember a cycle that planned."""
        if "plan" in timings:
            self._rounds.append(timings)

    def rows(self) -> dict[str, PhaseRow]:
        """Return what `coadapt cluster` shows, by phase in the order of the cycle. It is empty before a round."""
        rounds = list(self._rounds)
        return {
            phase: PhaseRow(last_s=last_s, median_s=median(found), most_s=max(found), rounds=len(rounds))
            for phase, last_s in (rounds[-1].items() if rounds else ())
            for found in [[timings.get(phase, 0.0) for timings in rounds]]
        }
