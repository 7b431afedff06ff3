"""A forecast of a job's length stays with the job and shrinks as the job trains."""

from __future__ import annotations

import math

import pytest
from coadapt.core.expected import ExpectedSource
from coadapt.estimators.foretold import Foretold


def test_before_it_trains_a_job_has_its_whole_length_left() -> None:
    left = Foretold(2400.0, 600.0, 6000.0, "41 earlier jobs of this name").left(0.0)
    assert (left.mean_s, left.low_s, left.high_s) == (2400.0, 600.0, 6000.0)
    assert left.source is ExpectedSource.HISTORY
    assert left.text == "about 40 min left (10 to 100), by 41 earlier jobs of this name"


def test_what_is_left_is_of_the_lengths_that_are_longer() -> None:
    foretold = Foretold(2400.0, 600.0, 6000.0, "")
    soon, late = foretold.left(600.0), foretold.left(6000.0)
    assert soon.mean_s > 2400.0 - 600.0, "a job that outlives the shortest lengths lasts longer than the mean"
    assert 0 < late.mean_s < math.inf
    assert foretold.left(1e12).source is ExpectedSource.UNKNOWN


@pytest.mark.parametrize("band", [(0.0, 1.0, 2.0), (3.0, 1.0, 4.0), (1.0, 5.0, 4.0), (1.0, math.nan, 2.0)])
def test_a_band_that_cannot_be_is_refused(band: tuple[float, float, float]) -> None:
    low_s, mean_s, high_s = band
    with pytest.raises(ValueError, match="foretold: "):
        Foretold(mean_s, low_s, high_s, "")
