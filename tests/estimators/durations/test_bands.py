"""A band holds about four of five lengths, by how wrong the newest forecasts were."""

from __future__ import annotations

import numpy as np
from coadapt.estimators.durations.bands import Bands
from coadapt.estimators.predictor import Z


def test_bands_hold_four_of_five_also_where_forecasts_are_biased_and_the_spread_is_wrong() -> None:
    random = np.random.default_rng(3)
    bands, held = Bands(), []
    for n in range(6000):
        typical_s, spread = float(np.exp(random.uniform(3, 12))), float(random.choice([0.2, 1.5]))
        truth_s = max(typical_s * float(np.exp(2 * spread * random.normal(0.5))), 1.0)
        if n > 500:
            low_s, high_s = bands.of(typical_s, spread)
            held.append((spread, low_s <= truth_s <= high_s))
        bands.ended(typical_s, spread, truth_s)
    for spread in (0.2, 1.5):
        assert 0.75 < np.mean([inside for of, inside in held if of == spread]) < 0.85


def test_before_anything_is_known_errors_are_taken_to_be_normal() -> None:
    low_s, high_s = Bands().of(60.0, 0.5)
    assert (low_s, high_s) == (60.0 * np.exp(-0.5 * Z), 60.0 * np.exp(0.5 * Z))
