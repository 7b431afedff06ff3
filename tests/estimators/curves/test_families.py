"""Each family finds its own curves again, and follows them beyond what it has seen."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.curves.families import families

X = np.arange(1.0, 31.0)
AHEAD = np.arange(31.0, 61.0)
PUBLISHED = {  # at about the published initial values
    "vapour_pressure": lambda x: np.exp(-0.622 - 0.47 / x + 0.0423 * np.log(x)),
    "log_log_linear": lambda x: np.log(0.2 * np.log(x) + 1.2),
    "ilog2": lambda x: 0.78 - 0.43 / np.log(x + 1),
    "pow3": lambda x: 0.84 - 0.52 * x**-0.5,
    "pow4": lambda x: 0.8 - (0.5 * x + 1.0) ** -1.0,
    "log_power": lambda x: 0.77 / (1 + (x / np.exp(1.5)) ** -0.9),
    "mmf": lambda x: 0.7 - 0.6 / (1 + (0.1 * x) ** 1.5),
    "weibull": lambda x: 0.7 - 0.6 * np.exp(-((0.08 * x) ** 1.0)),
}


@pytest.mark.parametrize("family", families(60.0), ids=lambda family: family.name)
def test_a_family_follows_its_own_curves(family) -> None:
    true = PUBLISHED[family.name](np.concatenate([X, AHEAD]))
    found = family.curves(X, true[: len(X)], AHEAD)
    best = np.nanargmin(((found[:, : len(X)] - true[: len(X)]) ** 2).sum(axis=1))
    assert np.abs(found[best] - true).max() < 0.02


def test_eight_forms_stand_for_eleven_published_families() -> None:
    assert len(families(60.0)) == 8
    assert sum(family.counts for family in families(60.0)) == 11
