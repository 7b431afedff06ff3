"""How well ends were predicted, and how wide bands must be by that. What ended is compared with what was shown.

A score is the error of a predicted end in the logarithm of the time left, over the half of the band on that side.
A band is right where 80 % of the scores are below 1; else all bands are stretched until they would have been.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Sequence

from ...core.expected import BAND
from ...forecasts.answers import Span

MOST = 100  # the newest scores
# What is known before any job has ended: that models err by more than their fit shows.
BEFORE = (0.4, 0.8, 1.2, 2.0)
LEAST, LARGEST = 0.7, 8.0
LEAST_LEFT_S, LEAST_HALF = 1.0, 0.02


class Calibration:
    """Keeps the first known end of each job, and the scores of those that have ended.

    Args:
        scores: of an earlier service.
    """

    def __init__(self, scores: Sequence[float] = ()) -> None:
        self._scores: deque[float] = deque(scores, maxlen=MOST)
        self._first: dict[str, tuple[float, Span]] = {}

    def told(self, job: str, now_s: float, end: Span | None) -> None:
        """Take note of what is predicted of a job, before it is stretched; only the first time counts."""
        if end is not None and job not in self._first:
            self._first[job] = now_s, end

    def ended(self, job: str, at_s: float, *, counts: bool) -> None:
        """Take note of an end. `counts`: whether the job came to its own end, and was not stopped."""
        first = self._first.pop(job, None)
        if first is None or not counts:
            return
        now_s, end = first
        left_s, predicted_s = max(at_s - now_s, LEAST_LEFT_S), max(end.at_s - now_s, LEAST_LEFT_S)
        error = math.log(left_s / predicted_s)
        side_s = max((end.high_s if error > 0 else end.low_s) - now_s, LEAST_LEFT_S)
        half = max(abs(math.log(side_s / predicted_s)), LEAST_HALF)
        self._scores.append(abs(error) / half)

    @property
    def scale(self) -> float:
        """By how much the halves of bands are stretched, in the logarithm of the time left."""
        known = sorted([*self._scores, *BEFORE])
        at = min(math.ceil(BAND * (len(known) + 1)), len(known)) - 1
        return min(max(known[at], LEAST), LARGEST)

    def stretched(self, end: Span | None, now_s: float) -> Span | None:
        """Return a moment with the band that it needs."""
        if end is None:
            return None
        left_s, scale = max(end.at_s - now_s, LEAST_LEFT_S), self.scale
        low = max(end.low_s - now_s, 0.01 * left_s) / left_s
        high = max(end.high_s - now_s, left_s) / left_s
        low, high = min(low, math.exp(-LEAST_HALF)), max(high, math.exp(LEAST_HALF))
        return Span(now_s + left_s, now_s + left_s * low**scale, now_s + left_s * high**scale)

    def to_json(self) -> str:
        """Return the scores as text."""
        return json.dumps([round(score, 4) for score in self._scores])

    @classmethod
    def from_json(cls, text: str | None) -> Calibration:
        """Return what `to_json` wrote; without any scores for anything else."""
        try:
            scores = [float(score) for score in json.loads(text or "[]")]
        except (ValueError, TypeError):
            scores = []
        return cls([score for score in scores if math.isfinite(score) and score >= 0])
