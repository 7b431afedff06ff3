"""Promises: the published energy figure, and boots that are counted beside it."""

from __future__ import annotations

import pytest
from coadapt.policies.sleeping.kwh import boot_kwh, saved_kwh, saved_kwh_per_year


def test_the_published_year_of_four_clusters() -> None:
    assert saved_kwh_per_year(5.0 + 20.5 + 20.0 + 34.0) == pytest.approx(1_671_408)


def test_boots_cost_what_they_draw() -> None:
    assert boot_kwh(12) == pytest.approx(12 * 300 / 3600 * 0.8 * 3)
    assert saved_kwh(10, idle_watts=500, cooling=0) == pytest.approx(5)
