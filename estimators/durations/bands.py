"""Bands of 80 % around foretold lengths, by how wrong the newest forecasts were. Pure but for its memory.

Each forecast has a typical length and a spread. An error is counted in spreads. The band holds four of five of the
newest errors: split conformal prediction over a window, with normalised errors (Lei et al., 2018, section 5.2).
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from ...core.expected import BAND
from ..predictor import Z

WINDOW = 3000  # errors; older ones are of other models
LEAST = 50  # before so many are known, errors are taken to be normal
REFRESH = 50  # errors after which the band is worked out anew
TAILS = ((1 - BAND) / 2, (1 + BAND) / 2)


class Bands:
    """Keeps the newest errors of forecasts that were made before their jobs ended."""

    def __init__(self) -> None:
        self._errors: deque[float] = deque(maxlen=WINDOW)
        self._fresh = 0
        self._ends = (-Z, Z)

    def ended(self, typical_s: float, spread: float, truth_s: float) -> None:
        """Take note of what came of a forecast. Lengths below a second count as one.

        Args:
            spread: standard deviation of the log of the length, as it was foretold; above 0.
        """
        self._errors.append(math.log(max(truth_s, 1.0) / typical_s) / spread)
        self._fresh += 1
        if len(self._errors) >= LEAST and self._fresh >= REFRESH:
            self._fresh = 0
            low, high = np.quantile(np.array(self._errors), TAILS)
            self._ends = float(low), float(high)

    def of(self, typical_s: float, spread: float) -> tuple[float, float]:
        """Return (low, high) in seconds around a forecast."""
        low, high = self._ends
        return typical_s * math.exp(low * spread), typical_s * math.exp(high * spread)
