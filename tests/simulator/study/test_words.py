"""Shares and times are short, and what is not known is a dash."""

from __future__ import annotations

import pytest
from coadapt.simulator.study.words import seconds, share

NAN = float("nan")


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.376, "37.6 %"), (0.12, "12 %"), (1.0, "100 %"), (0.0025, "0.25 %"), (0.0, "0 %"), (NAN, "-")],
)
def test_shares(value: float, told: str) -> None:
    assert share(value) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.0, "0 s"), (85.0, "85 s"), (206.0, "3.43 min"), (3600.0, "1 h"), (86_400.0, "24 h"),
     (1e6, "11.6 days"), (1e11, "1,157,407 days"), (NAN, "-")],
)  # fmt: skip
def test_times(value: float, told: str) -> None:
    assert seconds(value) == told
