"""How long a job takes that was just submitted: a forecast that stays with the job. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ..core.expected import UNKNOWN, Expected, ExpectedSource
from ..core.log_normal import LEAST_LONGER, LogNormal
from .predictor import Z


@dataclass(frozen=True)
class Foretold:
    """The seconds that a job needs with GPUs from start to end; `low_s` to `high_s` is a band of 80 %.

    basis: what it goes by, as "41 earlier jobs of this name".
    sum: how the mean comes about, as "2.2 h = 3.3 h jobs like it - 0.9 h owner alice"; "": the model is no sum.

    Raises:
        ValueError: for a mean that is not above 0 and finite, or lies outside of the band.
    """

    mean_s: float
    low_s: float
    high_s: float
    basis: str
    sum: str = ""

    def __post_init__(self) -> None:
        if not (0 < self.low_s <= self.mean_s <= self.high_s < math.inf):
            raise ValueError(
                f"foretold: {self.low_s}, {self.mean_s}, {self.high_s} are not accepted, must be above 0, finite "
                "and in ascending order"
            )

    @property
    def sigma(self) -> float:
        """The standard deviation of the log of the length, by the width of the band."""
        return max(math.log(self.high_s / self.low_s) / (2 * Z), 1e-3)

    @property
    def text(self) -> str:
        """Return it for a person, as "about 40 min (10 to 100), by 41 earlier jobs of its owner and name"."""
        return self.left(0.0).text.replace(" left (", " (")

    def left(self, trained_s: float) -> Expected:
        """Return what a job still needs after `trained_s` with GPUs, of those lengths that are longer."""
        if trained_s <= 0:
            return Expected(self.mean_s, self.low_s, self.high_s, ExpectedSource.HISTORY, self.basis)
        median_s = self.mean_s * math.exp(-(self.sigma**2) / 2)
        left = LogNormal(median_s, self.sigma).left(trained_s)
        return UNKNOWN if left is None else Expected(*left, ExpectedSource.HISTORY, self.basis)


def means_left(
    mean_s: NDArray[np.float64], sigma: NDArray[np.float64], trained_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return (jobs,) the means of what is left, as `Foretold.left` does for one job; nan: nobody can tell.

    Args:
        mean_s, sigma: (jobs,) of their forecasts; nan for a job without one.
        trained_s: (jobs,) seconds with GPUs.
    """
    begun = trained_s > 0
    z = (np.log(mean_s / np.where(begun, trained_s, 1.0)) - sigma**2 / 2) / sigma
    longer = ndtr(z)
    with np.errstate(divide="ignore", invalid="ignore"):
        left_s = np.where(longer < LEAST_LONGER, np.nan, mean_s * ndtr(z + sigma) / longer - trained_s)
    return np.where(begun, np.maximum(left_s, 0.0), mean_s)
