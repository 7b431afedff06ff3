"""The published speed formula gives the figures of the specification."""

from __future__ import annotations

import math

import pytest
from coadapt.estimators.two_speeds import TwoSpeeds

OF = TwoSpeeds.of(0.100, 0.110, 0.130)


@pytest.mark.parametrize(
    ("nodes", "gpus", "ms"), [(1, 1, 100), (1, 2, 110), (1, 8, 170), (2, 8, 310), (2, 16, 550), (2, 2, 130)]
)
def test_steps_take_what_equation_2_says(nodes: int, gpus: int, ms: float) -> None:
    assert float(OF.step_time_s(nodes, gpus)) == pytest.approx(ms / 1e3)


def test_a_spread_job_is_slower_by_the_published_ratio() -> None:
    together, spread = OF.step_time_s([1, 2], [8, 8])
    assert together / spread == pytest.approx(0.548, abs=5e-4)


def test_one_gpu_knows_no_communication() -> None:
    assert float(TwoSpeeds(0.1, 5.0, 9.0).step_time_s(1, 1)) == 0.1


def test_two_gpus_that_are_faster_than_one_add_nothing() -> None:
    assert TwoSpeeds.of(0.5, 0.4, 0.75) == TwoSpeeds(0.5, 0.0, 0.25)


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("compute_s", (0.0, 0.1, 0.1)),
        ("compute_s", (math.nan, 0.1, 0.1)),
        ("within_s", (1.0, -0.1, 0.1)),
        ("across_s", (1.0, 0.1, math.inf)),
    ],
)
def test_times_that_cannot_be_are_refused(name: str, times: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match=f"{name}: .* is not accepted"):
        TwoSpeeds(*times)
