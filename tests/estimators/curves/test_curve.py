"""A learning curve keeps what counts: finite points, up to a restored checkpoint."""

from __future__ import annotations

import math

import pytest
from coadapt.estimators.curves.curve import MOST_POINTS, Curve

RISING = Curve((1.0, 2.0, 3.0), (0.2, 0.4, 0.5))


def test_points_beyond_a_restored_checkpoint_are_dropped() -> None:
    assert RISING.rewound(2.0) == Curve((1.0, 2.0), (0.2, 0.4))
    assert RISING.rewound(9.0) is RISING
    assert RISING.with_point(2.0, 0.3) == Curve((1.0, 2.0), (0.2, 0.3)), "it was measured again"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_number_are_left_out(value: float) -> None:
    assert RISING.with_point(4.0, value) == RISING
    assert RISING.with_point(2.5, value) == Curve((1.0, 2.0), (0.2, 0.4)), "it says that training is back there"


@pytest.mark.parametrize("at", [0.0, -1.0, math.nan, math.inf])
def test_points_before_any_progress_are_left_out(at: float) -> None:
    assert 0.9 not in RISING.with_point(at, 0.9).values


def test_a_long_curve_is_thinned_at_its_start() -> None:
    curve = Curve.of((n, 1 - 1 / n) for n in range(1, 2000))
    assert len(curve) <= MOST_POINTS
    assert curve.at[-3:] == (1997.0, 1998.0, 1999.0)
    assert Curve.of(curve.points) == curve


def test_single_spikes_are_left_out_and_jumps_that_stay_are_kept() -> None:
    values = [0.1 + 0.01 * n for n in range(12)]
    spiked = [*values[:6], 40.0, *values[6:]]
    jumped = [*values[:6], *(v + 0.3 for v in values[6:])]
    assert 40.0 not in Curve.of(enumerate(spiked, 1)).without_spikes().values
    curve = Curve.of(enumerate(jumped, 1))
    assert curve.without_spikes() is curve


@pytest.mark.parametrize(
    ("at", "values", "told"),
    [
        ((1.0,), (), "1 positions and 0 values"),
        ((2.0, 1.0), (0.1, 0.2), "must ascend"),
        ((0.0,), (0.1,), "must ascend from above 0"),
        ((1.0,), (math.nan,), "must be finite"),
    ],
)
def test_what_is_no_curve_is_refused(at: tuple[float, ...], values: tuple[float, ...], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Curve(at, values)
