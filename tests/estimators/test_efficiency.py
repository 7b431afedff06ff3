"""Statistical efficiency and gain."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.efficiency import efficiency, gain, noise_scale
from hypothesis import given
from hypothesis import strategies as st

phis = st.floats(0, 1e9)
firsts = st.integers(1, 10_000)


@given(phis, firsts, st.integers(1, 1000))
def test_efficiency_is_at_most_one_and_falls_with_the_batch(phi: float, first: int, times: int) -> None:
    values = efficiency(first * np.array([1, times, 2 * times]), first, phi)
    assert values[0] == 1.0
    assert np.all((values > 0) & (values <= 1))
    assert np.all(np.diff(values) <= 0)


@given(phis, firsts, st.integers(1, 1000))
def test_gain_lies_between_one_and_the_scale(phi: float, first: int, times: int) -> None:
    assert 1 - 1e-9 <= float(gain(first * times, first, phi)) <= times * (1 + 1e-9)


def test_gain_is_adascales() -> None:
    sqr, var, scale = 2.0, 3.0, 4.0  # var: of the mean gradient at the initial batch size, 10
    assert gain(40, 10, 10 * var / sqr) == pytest.approx((var + sqr) / (var / scale + sqr))


def test_an_unknown_noise_scale_makes_a_larger_batch_worth_nothing() -> None:
    assert gain(80, 10, None) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("sqr", "var"),
    [(0.0, 1.0), (float("nan"), 1.0), (1.0, float("inf")), (-1.0, 1.0), (1.0, -1.0), (1e-300, 1e300)],
)
def test_a_noise_scale_that_cannot_be_told_is_none(sqr: float, var: float) -> None:
    assert noise_scale(sqr, var) is None


def test_noise_scale_is_variance_over_squared_norm() -> None:
    assert noise_scale(2.0, 6.0) == 3.0
