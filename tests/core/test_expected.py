"""What is expected of a job: a mean within its band, a source, and one sentence for what cannot be."""

from __future__ import annotations

import math

import pytest
from coadapt.core.expected import UNKNOWN, Expected, ExpectedSource

SPEED = ExpectedSource.MEASURED_SPEED


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ((5.0, 9.0, 3.0), "low_s: 9.0 is above high_s 3.0, must be at most that"),
        ((math.nan, 0.0, 1.0), "mean_s: nan is not accepted, must be a finite number of seconds, 0 or more"),
        ((1.0, math.nan, 2.0), "low_s: nan is not accepted, must be a finite number of seconds, 0 or more"),
        ((1.0, 0.0, math.nan), "high_s: nan is not accepted, must be a finite number of seconds, 0 or more"),
        ((1.0, -1.0, 2.0), "low_s: -1.0 is not accepted, must be a finite number of seconds, 0 or more"),
        ((1.0, 0.0, math.inf), "high_s: inf is not accepted, must be a finite number of seconds, 0 or more"),
        ((5.0, 1.0, 2.0), "mean_s: 5.0 must lie from low_s 1.0 to high_s 2.0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(numbers: tuple[float, float, float], told: str) -> None:
    with pytest.raises(ValueError, match=":") as found:
        Expected(*numbers, SPEED)
    assert str(found.value) == told


def test_what_nobody_knows_may_be_anything_and_says_so() -> None:
    assert (UNKNOWN.low_s, UNKNOWN.high_s, UNKNOWN.known) == (0.0, math.inf, False)
    assert UNKNOWN.text == "nobody knows how long it still needs"


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (Expected(720.0, 540.0, 900.0, SPEED), "about 12 min left (9 to 15), from measured speed"),
        (
            Expected(90.0, 30.0, 200.0, ExpectedSource.EARLIER_RUNS),
            "about 90 s left (30 to 200), from earlier runs",
        ),
        (Expected.exactly(7200.0, ExpectedSource.TRACE), "2 h left, told by the trace"),
        (Expected(4e6, 1e6, 5e6, SPEED), "about 46 d left (12 to 58), from measured speed"),
        (Expected.exactly(0.0, SPEED), "0 s left, from measured speed"),
    ],
)
def test_an_expectation_is_a_phrase_with_its_band_and_its_source(expected: Expected, text: str) -> None:
    assert expected.text == text
