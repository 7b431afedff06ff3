"""CPU counts at which input is measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from coadapt.estimators.cpu_plan import next_cpus
from hypothesis import given
from hypothesis import strategies as st


def visited(
    rate: Callable[[int], float], most: int = 24, share: int = 3, known: dict[int, float] | None = None
) -> list[int]:
    measured, order = dict(known or {}), list[int]()
    while (cpus := next_cpus(measured, most, share)) is not None:
        measured[cpus] = rate(cpus)
        order.append(cpus)
    return order


def saturating(knee: float, power: float) -> Callable[[int], float]:
    return lambda cpus: float(min(cpus, knee) ** power)


@pytest.mark.parametrize(
    ("rate", "order"),
    [
        (saturating(9, 0.76), [24, 12, 6, 9, 7, 8, 1, 3]),
        (saturating(12, 0.82), [24, 12, 6, 9, 10, 11, 1, 3]),
        (saturating(24, 0.82), [24, 12, 18, 21, 22, 1, 3]),
        (saturating(1, 1.0), [24, 12, 6, 3, 2, 1]),
    ],
)
def test_points_lie_where_the_rate_changes(rate: Callable[[int], float], order: list[int]) -> None:
    assert visited(rate) == order


def test_what_was_measured_is_not_measured_again_and_more_cpus_add_points() -> None:
    rate = saturating(9, 0.76)
    few = {cpus: rate(cpus) for cpus in visited(rate, most=6)}
    assert max(few) == 6
    assert visited(rate, most=24, known=few) == [24, 12, 9, 7, 8]
    assert visited(rate, most=24, known={cpus: rate(cpus) for cpus in visited(rate)}) == []


def test_one_cpu_is_one_point_and_none_is_refused() -> None:
    assert visited(saturating(9, 1.0), most=1) == [1]
    with pytest.raises(ValueError, match="most: 0 CPUs to measure on; 1 or more is accepted"):
        next_cpus({}, 0)


@given(st.integers(1, 128), st.floats(1.0, 128.0), st.floats(0.1, 1.0), st.integers(1, 16))
def test_few_points_are_enough_for_any_node(most: int, knee: float, power: float, share: int) -> None:
    order = visited(saturating(knee, power), most, share)
    assert len(order) == len(set(order)) <= int(np.ceil(np.log2(most))) + 4
    assert {1, most, min(share, most)} <= set(order)
