"""What the benchmarks of growth and attribution promise: the changes they say, and one program for all methods."""

from dataclasses import replace

import numpy as np
import pytest
from coadapt.benchmarks.allocation_growth import Point, exponent, rounds_of_sia
from coadapt.benchmarks.attribution import METHODS, compare
from hypothesis import given
from hypothesis import strategies as st


@given(st.floats(-2, 3), st.floats(1e-6, 1e3))
def test_the_exponent_of_a_power_is_that_power_from_where_it_holds(power: float, factor: float) -> None:
    point = Point(1.0, 1.0, 1.0, 1.0, 1, 1, 0.0, 0.0)
    points = [replace(point, x=x, warm_s=factor * x**power) for x in (10.0, 100.0, 1000.0)]
    points.insert(0, replace(point, x=1.0, warm_s=1e6))  # before it holds
    points.insert(0, replace(point, x=0.0, warm_s=1e6))  # nothing changed
    assert exponent(points, 10.0) == pytest.approx(power, abs=1e-6)


def test_of_what_is_asked_to_change_a_fifth_is_replaced_and_the_rest_stays_under_its_name() -> None:
    _, allocation = rounds_of_sia(300, 200, 2, 1, seed=0)
    before, gains = list(allocation.order), allocation.gains(allocation.order)[0]
    allocation.change(0.0)
    assert allocation.order == before
    allocation.change(0.5)
    came = set(allocation.order) - set(before)
    assert 10 <= len(came) <= 30
    assert len(allocation.order) == len(allocation.program) == 200
    stayed = [i for i, id in enumerate(allocation.order) if id == before[i]]
    after = allocation.gains(allocation.order)[0]
    same = np.isclose(gains[stayed], after[stayed], rtol=1e-12, atol=0).all(axis=1)
    assert same.sum() == 100  # and half of all have other gains, or are others
    assert allocation.cold_s() > 0


def test_every_method_of_the_attribution_solves_the_same_relaxation() -> None:
    compared = compare(gpus=200, jobs=40, types=3, rounds=2, tolerance=1e-4, seed=0)
    assert set(compared.seconds) == set(METHODS)
    for method in METHODS:
        assert len(compared.seconds[method]) == 4
        assert compared.off[method] <= 2e-4, method
