"""How long jobs hold their GPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..traces.tables import DAY_S, Floats

QUANTILES = (10, 25, 50, 75, 90, 99)
BOUNDS_S = (60.0, 1000.0, 3600.0, DAY_S)


@dataclass(frozen=True)
class Lengths:
    """Seconds of the jobs whose length is known.

    `quantiles_s`: by percent. `shorter`: share of jobs that are shorter than so many seconds.
    """

    jobs: int
    mean_s: float
    longest_s: float
    quantiles_s: dict[int, float]
    shorter: dict[float, float]

    @property
    def median_s(self) -> float:
        return self.quantiles_s[50]


def lengths(length_s: Floats) -> Lengths | None:
    """Return what is known of lengths (jobs,); None: nothing is."""
    known = length_s[np.isfinite(length_s)]
    if not len(known):
        return None
    return Lengths(
        jobs=len(known),
        mean_s=float(known.mean()),
        longest_s=float(known.max()),
        quantiles_s=dict(zip(QUANTILES, np.percentile(known, QUANTILES).tolist(), strict=True)),
        shorter={bound: float((known < bound).mean()) for bound in BOUNDS_S},
    )
