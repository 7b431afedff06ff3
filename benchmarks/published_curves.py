"""A peer: the eleven learning-curve families by iterated least squares, from their published initial values.

Weights are likelihoods, as the Markov chains of the published form find them where fits are good. The chains
themselves take minutes a curve, and are left out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import curve_fit

Array = np.ndarray
FAMILIES: tuple[tuple[Callable[..., Array], tuple[float, ...]], ...] = (
    (lambda x, a, b, c: np.exp(a + b / x + c * np.log(x)), (-0.622, -0.470, 0.0423)),
    (lambda x, c, a: c - a / np.log(x + 1), (0.78, 0.43)),
    (lambda x, c, a, al: c - a * x**-al, (0.84, 0.52, 0.01)),
    (lambda x, c, a, b, al: c - (a * x + b) ** -al, (0.8, 200.0, 0.0, 0.1)),
    (lambda x, a, b: np.log(a * np.log(x) + b), (1.0, 1.0)),
    (lambda x, a, b, c: a / (1 + (x / np.exp(b)) ** c), (0.77, 2.98, -0.51)),
    (lambda x, al, be, ka, de: al - (al - be) * np.exp(-((ka * x) ** de)), (0.7, 0.1, 0.01, 1.0)),
    (lambda x, al, be, ka, de: al - (al - be) / (1 + (ka * x) ** de), (0.7, 0.1, 0.01, 5.0)),
    (lambda x, a, be, k, de: a - (a - be) * np.exp(-k * x**de), (0.73, 0.07, 0.355, 0.46)),
    (lambda x, th, et, ka: th * x**et / (ka**et + x**et), (0.772, 0.586, 2.461)),
    (lambda x, c, a, b, al: c - np.exp(-a * x**al + b), (0.7, 0.8, -0.8, 0.3)),
)
LEAST_POINTS = 4


def published_epoch(values: Array, goal: float, epochs: int) -> int:
    """Return the epoch at which the mean curve reaches a goal; the last one where it does not.

    Args:
        values: of the epochs so far, on a scale of 0..1 on which they rise.
    """
    count = len(values)
    x, ahead = np.arange(1.0, count + 1), np.arange(1.0, epochs + 1)
    curves, logs = [], []
    if count < LEAST_POINTS:
        return epochs
    for family, start in FAMILIES:
        if len(start) > count:
            continue
        try:
            with np.errstate(all="ignore"):
                found, _ = curve_fit(family, x, values, start, maxfev=2000)
                curve = family(ahead, *found)
        except (RuntimeError, ValueError):
            continue
        if not np.isfinite(curve).all() or not 0 <= curve[-1] <= 100 or curve[1] > curve[-1]:
            continue
        errors = ((curve[:count] - values) ** 2).sum() + 1e-12
        curves.append(curve)
        logs.append(-0.5 * max(count - len(start), 1) * np.log(errors))
    if not curves:
        return epochs
    share = np.exp(np.array(logs) - max(logs))
    mean = (share / share.sum()) @ np.array(curves)
    above = np.flatnonzero((mean >= goal) & (ahead > count))
    return int(ahead[above[0]]) if len(above) else epochs
