"""Isotonic regression by pooling adjacent violators (PAV). Pure.

Source: Primo, ATC'22, equation on isotonic regression: least Σ wᵢ(yᵢ - ŷᵢ)² with ŷ in order.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from .table import Floats

Direction = Literal["increasing", "decreasing"]
_LEAST_WEIGHT = 1e-9  # of a bin without rows, so that it follows its neighbours


def pooled(values: Floats, weights: Floats, direction: Direction = "increasing") -> Floats:
    """Return the values nearest to these that rise, or fall, from one to the next.

    Args:
        values, weights: (values,); weights of 0 count next to nothing.

    Raises:
        ValueError: in one sentence, for another direction and for weights below 0.
    """
    if direction not in ("increasing", "decreasing"):
        raise ValueError(f"direction: {direction!r} is not accepted, must be increasing or decreasing")
    if len(values) != len(weights) or not (np.asarray(weights) >= 0).all():
        raise ValueError(
            f"weights: {len(weights)} for {len(values)} values are not accepted, must be 0 or more each"
        )
    sign = 1.0 if direction == "increasing" else -1.0
    blocks: list[tuple[float, float, int]] = []  # mean, weight, values
    for value, weight in zip(sign * np.asarray(values, float), np.maximum(weights, _LEAST_WEIGHT), strict=True):
        mean, total, count = float(value), float(weight), 1
        while blocks and blocks[-1][0] > mean:
            before, heavier, more = blocks.pop()
            mean = (before * heavier + mean * total) / (heavier + total)
            total, count = heavier + total, more + count
        blocks.append((mean, total, count))
    return sign * np.repeat([mean for mean, _, _ in blocks], [count for _, _, count in blocks])


def is_monotone(values: Floats, direction: Direction) -> bool:
    """Return whether values never turn back."""
    steps = np.diff(values)
    return bool((steps >= 0).all() if direction == "increasing" else (steps <= 0).all())
