"""How long a job takes that was just submitted: a forecast that stays with the job. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..core.expected import UNKNOWN, Expected, ExpectedSource
from .log_normal import LogNormal
from .predictor import Z


@dataclass(frozen=True)
class Foretold:
    """The seconds that a job needs with GPUs from start to end; `low_s` to `high_s` is a band of 80 %.

    basis: what it goes by, as "41 earlier jobs of this name".

    Raises:
        ValueError: for a mean that is not above 0 and finite, or lies outside of the band.
    """

    mean_s: float
    low_s: float
    high_s: float
    basis: str

    def __post_init__(self) -> None:
        if not (0 < self.low_s <= self.mean_s <= self.high_s < math.inf):
            raise ValueError(
                f"foretold: {self.low_s}, {self.mean_s}, {self.high_s} are not accepted, must be above 0, finite "
                "and in ascending order"
            )

    def left(self, trained_s: float) -> Expected:
        """Return what a job still needs after `trained_s` with GPUs, of those lengths that are longer."""
        if trained_s <= 0:
            return Expected(self.mean_s, self.low_s, self.high_s, ExpectedSource.HISTORY, self.basis)
        sigma = max(math.log(self.high_s / self.low_s) / (2 * Z), 1e-3)
        median_s = self.mean_s * math.exp(-(sigma**2) / 2)
        left = LogNormal(median_s, sigma).left(trained_s)
        return UNKNOWN if left is None else Expected(*left, ExpectedSource.HISTORY, self.basis)
