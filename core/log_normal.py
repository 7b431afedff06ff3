"""How much of a length is left, where lengths are log-normal. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from .expected import BAND

_STANDARD = NormalDist()
LEAST_LONGER = 1e-6  # of all lengths that are longer: beyond it nothing is known of what is left


@dataclass(frozen=True)
class LogNormal:
    """A length with a median, in any unit, and the standard deviation of its log.

    Raises:
        ValueError: for a median or deviation that is not above 0 and finite.
    """

    median: float
    sigma: float

    def __post_init__(self) -> None:
        for name in ("median", "sigma"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise ValueError(f"{name}: {value} is not accepted, must be a finite number above 0")

    @classmethod
    def of(cls, lengths: Sequence[float], prior_sigma: float) -> LogNormal:
        """Return what lengths, all above 0, say of the next one.

        Args:
            prior_sigma: deviation that one length alone is taken to have.
        """
        logs = [math.log(length) for length in lengths]
        count = len(logs)
        mean = math.fsum(logs) / count
        within = math.fsum((value - mean) ** 2 for value in logs)
        sigma = math.sqrt((prior_sigma**2 + within) / count)
        return cls(math.exp(mean), sigma * math.sqrt(1 + 1 / count))

    def left(self, done: float) -> tuple[float, float, float] | None:
        """Return (mean, low, high) of what is left, of those lengths that exceed `done`; the band is of 80 %.

        None: next to none are that long.
        """
        mean = self.median * math.exp(self.sigma**2 / 2)
        if done <= 0:
            longer = 1.0
        else:
            z = math.log(self.median / done) / self.sigma
            longer = _STANDARD.cdf(z)
            if longer < LEAST_LONGER:
                return None
            mean *= _STANDARD.cdf(z + self.sigma) / longer
        low, high = (self._quantile(1 - longer * (1 + side * BAND) / 2) for side in (1, -1))
        found = [max(value - max(done, 0.0), 0.0) for value in (mean, low, high)]
        return min(max(found[0], found[1]), found[2]), found[1], found[2]

    def _quantile(self, part: float) -> float:
        return self.median * math.exp(self.sigma * _STANDARD.inv_cdf(part))
