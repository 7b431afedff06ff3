"""Numbers and times as people read them."""

from __future__ import annotations

import pytest
from coadapt.dashboard.words import count, iso, per_cent, short, took, utc


@pytest.mark.parametrize(
    ("part", "told"), [(0.0, "0 %"), (0.001, "1 %"), (0.5, "50 %"), (0.999, "99 %"), (1.0, "100 %")]
)
def test_what_has_begun_is_not_nothing_and_what_goes_on_is_not_all(part: float, told: str) -> None:
    assert per_cent(part) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [(None, "–"), (0, "0"), (0.000123456, "0.000123"), (3.14159, "3.14"), (1234.5, "1,234"), (-250.2, "-250")],
)
def test_figures_have_three_digits(value: float | None, told: str) -> None:
    assert short(value) == told


def test_moments_and_spans() -> None:
    assert (iso(0.0), utc(0.0)) == ("1970-01-01T00:00:00Z", "01 Jan 00:00 UTC")
    assert (took(0.0171), took(1.25)) == ("17.1 ms", "1.2 s")
    assert (count(1, "job"), count(1200, "job"), count(2, "job waits", "jobs wait")) == (
        "1 job",
        "1,200 jobs",
        "2 jobs wait",
    )
