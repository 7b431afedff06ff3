"""Bands are as wide as earlier ones should have been."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from coadapt.forecasts.answers import Span
from coadapt.scheduler.forecasts.calibration import LARGEST, LEAST, Calibration


def jobs(count: int, error: float, seed: int = 0) -> Iterator[tuple[str, float, float]]:
    """Yield jobs with what is predicted to be left of them and what then was, off by such a deviation."""
    draw = random.Random(seed)
    for number in range(count):
        left_s = draw.uniform(100, 10_000)
        yield f"job-{number}", left_s, left_s * draw.lognormvariate(0.0, error)


def band(left_s: float) -> Span:
    return Span(left_s, left_s / 1.1, left_s * 1.1)


@pytest.mark.parametrize("error", [0.03, 0.1, 0.3])
def test_eighty_per_cent_end_within_their_band_whatever_the_error(error: float) -> None:
    found = Calibration()
    for name, left_s, came_s in jobs(100, error):
        found.told(name, 0.0, band(left_s))
        found.ended(name, came_s, counts=True)
    held = 0
    for _, left_s, came_s in jobs(500, error, seed=1):
        stretched = found.stretched(band(left_s), 0.0)
        assert stretched is not None
        assert stretched.at_s == left_s
        held += stretched.low_s <= came_s <= stretched.high_s
    assert 0.7 <= held / 500 <= (0.9 if error > 0.03 else 1.0)  # bands are not narrowed at will


def test_one_job_counts_once_and_by_its_first_prediction() -> None:
    found = Calibration()
    found.told("a", 0.0, band(1000.0))
    found.told("a", 900.0, Span(1900.0, 1800.0, 2000.0))
    before = found.to_json()
    found.ended("a", 1000.0, counts=True)
    assert found.to_json() != before == "[]"
    found.ended("a", 1000.0, counts=True)
    assert found.to_json() == "[0.0]"


def test_a_job_that_was_stopped_or_not_predicted_teaches_nothing() -> None:
    found = Calibration()
    found.told("a", 0.0, band(1000.0))
    found.told("b", 0.0, None)
    found.ended("a", 10.0, counts=False)
    found.ended("b", 10.0, counts=True)
    assert found.to_json() == "[]"


def test_it_lasts_as_text_and_stays_within_bounds() -> None:
    assert Calibration.from_json(Calibration([0.5, 2.0]).to_json()).to_json() == "[0.5, 2.0]"
    for torn in ("{", None, '["x"]', "[[1]]"):
        assert Calibration.from_json(torn).to_json() == "[]"
    assert Calibration([100.0] * 50).scale == LARGEST
    assert Calibration([0.0] * 50).scale == LEAST
    assert Calibration().stretched(None, 0.0) is None
