"""Watches how many arrivals a model has foretold of late, by team and window, so that it is heeded or not. Pure.

Errors come in bursts ("Anticipatory Resource Allocation for ML Training", section 5.4). Of a missed arrival it is
known at once; of a false alarm nobody comes to harm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from .features import DAY_S, arrive
from .model import STEP_S, Arriving, Bools
from .past import Floats, TeamPast

LEAST_MOMENTS = 6  # before arrivals of a day, before they tell anything


class Watch:
    """Compares what a model says every 5 min with what comes.

    Args:
        least_recall: the part of these moments before arrivals of a day that have to be foretold; 0: none.
    """

    def __init__(self, model: Arriving, least_recall: float) -> None:
        self._model, self._least = model, least_recall
        self._said: dict[str, tuple[Floats, dict[float, Bools]]] = {}  # team -> moments; window -> what it said
        self._step = -math.inf
        self._missed: frozenset[tuple[str, float]] = frozenset()

    @property
    def since_s(self) -> float:
        """The moment from which on runs have to be known when it looks next."""
        return STEP_S * self._step

    @property
    def missed(self) -> frozenset[tuple[str, float]]:
        """The teams and windows of which too few arrivals of the last day were foretold."""
        return self._missed

    def look(self, pasts: Mapping[str, TeamPast], now: float) -> None:
        """Let the model say what it has not said yet of the last day, and compare with what has come."""
        step = math.floor(now / STEP_S)
        if step <= self._step:
            return
        self._step = step
        groups: dict[float, list[str]] = {}
        first_s = STEP_S * math.ceil((now - DAY_S) / STEP_S)
        for team in pasts:
            at_s, _ = self._said.get(team, (np.empty(0), {}))
            groups.setdefault(max(first_s, at_s[-1] + STEP_S) if len(at_s) else first_s, []).append(team)
        for since_s, teams in groups.items():
            at_s = np.arange(since_s, STEP_S * step + 1, STEP_S)
            said = self._model.said([pasts[team] for team in teams], at_s)
            for place, team in enumerate(teams):
                self._add(team, at_s, {window_s: rows[place] for window_s, rows in said.items()}, first_s)
        self._missed = frozenset(key for team, past in pasts.items() for key in self._of(team, past, now))

    def _add(self, team: str, at_s: Floats, said: Mapping[float, Bools], first_s: float) -> None:
        before_s, before = self._said.get(team, (np.empty(0), {}))
        kept = before_s >= first_s
        old = {window_s: rows[kept] for window_s, rows in before.items()}
        both = {w: np.concatenate([old[w], rows]) if w in old else rows for w, rows in said.items()}
        self._said[team] = np.concatenate([before_s[kept], at_s]), both

    def _of(self, team: str, past: TeamPast, now: float) -> list[tuple[str, float]]:
        """Return the windows of a team of which too few arrivals were foretold."""
        at_s, said = self._said[team]
        found = []
        for window_s, rows in said.items():
            came = arrive(past, at_s, window_s)
            if came.sum() >= LEAST_MOMENTS and rows[came].mean() < self._least:
                found.append((team, window_s))
        return found
