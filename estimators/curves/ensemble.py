"""The ensemble of learning-curve families: what a job's own curve says of when it reaches a value. Pure.

All shapes of all families are weighed by how well they fit, with their errors integrated out. The published form
samples the same posterior by Markov chains, which takes minutes; here it is a sum over a grid, which takes
milliseconds and no chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.expected import BAND
from .families import Floats, families

LEAST_POINTS = 4
NOISE_FLOOR = 1e-3  # of the scale of values: no fit is believed to be closer
BELIEF = 0.5  # of the log of a likelihood: errors of neighbouring points go together
BELIEF_OF_BAND = 0.05  # chosen so that bands hold on 34 measured curves (`docs/results/learning-curves.md`)
HIGHEST = 100.0  # a curve that ends above it is none, as published


@dataclass(frozen=True)
class Crossing:
    """Evaluations after which a value is reached; `low` to `high` is a band of 80 %. inf: not by the last one."""

    at: float
    low: float
    high: float
    last: float  # what the mean curve is at the last evaluation


def crossing(x: Floats, y: Floats, ahead: Floats, value: float) -> Crossing | None:
    """Return when the mean of the ensemble reaches a value; None: no family fits.

    Args:
        x: (points,) evaluations, ascending from above 0; `y`: the metric, scaled to about 0..1, that rises.
        ahead: (m,) evaluations to come, ascending beyond `x`.
    """
    curves, likelihoods, priors = [], [], []
    for family in families(float(ahead[-1])):
        found = family.curves(x, y, ahead)
        with np.errstate(all="ignore"):
            errors = ((found[:, : len(x)] - y) ** 2).sum(axis=1) + len(x) * NOISE_FLOOR**2
            rises = (found[:, -1] >= found[:, len(x)]) & (found[:, -1] > found[:, 0])
            possible = np.isfinite(found).all(axis=1) & rises & (found[:, -1] <= HIGHEST)
            likelihood = -0.5 * max(len(x) - family.free, 1) * np.log(errors)
        curves.append(found[possible, len(x) :])
        likelihoods.append(likelihood[possible])
        priors.append(np.full(int(possible.sum()), np.log(family.counts / len(found))))
    ways, fits, before = (np.concatenate(parts) for parts in (curves, likelihoods, priors))
    if not len(ways):
        return None
    mean = _shares(BELIEF * fits + before) @ ways
    share = _shares(BELIEF_OF_BAND * fits + before)
    reached = ways >= value
    at = np.where(reached.any(axis=1), ahead[reached.argmax(axis=1)], np.inf)
    order = np.argsort(at)
    ends = np.searchsorted(np.cumsum(share[order]), ((1 - BAND) / 2, (1 + BAND) / 2))
    low, high = at[order][np.minimum(ends, len(order) - 1)].tolist()
    above = mean >= value
    middle = float(ahead[above.argmax()]) if above.any() else float("inf")
    return Crossing(middle, min(low, middle), max(high, middle), float(mean[-1]))


def _shares(logs: Floats) -> Floats:
    """Return weights that sum to 1 from their logarithms."""
    weights: Floats = np.exp(logs - logs.max())
    return weights / weights.sum()
