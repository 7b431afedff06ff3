"""Prices of own rows: each the maximiser of the dual along it, nearest to what it was."""

from __future__ import annotations

import math

import numpy as np
import pytest
from coadapt.optimizer.copter.engine import ContinualProgram, Row
from coadapt.optimizer.copter.engine.kernels import SparseColumns
from coadapt.optimizer.copter.engine.own_prices import improve_own_prices
from coadapt.optimizer.copter.engine.storage import CAPACITY, OWN
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.floats(-4, 4).map(lambda number: round(number, 2))
LOWER = st.sampled_from([-math.inf, -1.0, 0.0])
UPPER = st.sampled_from([math.inf, 0.0, 1.5])
COEFFICIENT = st.sampled_from([-2.0, -1.0, 0.5, 1.0, 3.0])
COLUMN = st.tuples(NUMBERS, COEFFICIENT, NUMBERS, LOWER, UPPER)  # cost, in the own row, in the shared one


def improved(
    columns: list[tuple[float, float, float, float, float]], sides: tuple[float, float], y: list[float]
) -> np.ndarray:
    cost, own, shared, lower, upper = (np.array(part) for part in zip(*columns, strict=True))
    entries = np.column_stack([shared, own])
    count = len(columns)
    sparse = SparseColumns.packed(np.arange(0, 2 * count + 1, 2), np.tile([0, 1], count), entries.ravel())
    prices = np.array(y)
    reduced = cost - entries @ prices
    low, high = np.array([0.0, sides[0]]), np.array([1.0, sides[1]])
    kinds = np.array([CAPACITY, OWN], dtype=np.uint8)
    improve_own_prices(sparse, kinds, lower, upper, low, high, prices, reduced)
    assert prices[0] == y[0], "what is shared stays"
    np.testing.assert_allclose(reduced, cost - entries @ prices, atol=1e-9)
    return prices


def dual(
    columns: list[tuple[float, float, float, float, float]], sides: tuple[float, float], y: np.ndarray
) -> float:
    """Return what the own row and the columns add; -inf if a column or the row has no end that way."""
    total = 0.0 if y[1] == 0.0 else float(y[1] * (sides[0] if y[1] > 0.0 else sides[1]))
    for cost, own, shared, lower, upper in columns:
        reduced = cost - shared * y[0] - own * y[1]
        if abs(reduced) > 1e-9:
            total += reduced * (lower if reduced > 0.0 else upper)
    return total


@given(
    st.lists(COLUMN, min_size=1, max_size=6),
    st.sampled_from([(-math.inf, 1.0), (1.0, 1.0), (-1.0, 2.0), (0.5, math.inf)]),
    st.tuples(NUMBERS, NUMBERS),
)
def test_no_other_price_of_the_row_is_better(
    columns: list[tuple[float, float, float, float, float]],
    sides: tuple[float, float],
    y: tuple[float, float],
) -> None:
    found = improved(columns, sides, list(y))
    turns = [(cost - shared * y[0]) / own for cost, own, shared, _, _ in columns]
    best = max(dual(columns, sides, np.array([y[0], price])) for price in [0.0, y[1], *turns])
    mine = dual(columns, sides, found)
    if max(dual(columns, sides, np.array([y[0], far])) for far in (-1e4, 1e4)) > best:
        assert found[1] == y[1], "there is no best one"
    elif math.isfinite(best):
        assert mine == pytest.approx(best, abs=1e-6)
        if dual(columns, sides, np.array(y)) == best:
            assert abs(found[1] - y[1]) <= 1e-9, "the nearest of those that are as good"


def test_a_request_that_picks_one_pays_what_its_best_variable_is_worth_beyond_the_shared_price() -> None:
    columns = [(-5.0, 1.0, 1.0, 0.0, math.inf), (-8.0, 1.0, 2.0, 0.0, math.inf)]
    assert improved(columns, (-math.inf, 1.0), [-1.0, 0.0])[1] == -6.0
    assert improved(columns, (-math.inf, 1.0), [-9.0, -2.0])[1] == 0.0, "what costs too much is not picked"


def test_requests_that_come_are_solved_with_as_few_iterations_as_they_are_few() -> None:
    rng = np.random.default_rng(0)
    program = ContinualProgram(maximise=True)
    program.set_capacity("gpus", 60.0)
    gpus = np.arange(1.0, 21.0)

    def add(first: int, count: int) -> None:
        values = rng.uniform(1, 3, (count, 1)) * gpus ** rng.uniform(0.4, 0.9, (count, 1))
        ids, sizes = list(range(first, first + count)), np.full(count, len(gpus))
        program.add_requests(ids, sizes, values.ravel(), {"gpus": np.tile(gpus, count)}, [Row(1.0, upper=1.0)])

    add(0, 100)
    cold = program.solve()
    add(100, 2)
    warm = program.solve()
    again = program.solve(warm=False)
    assert warm.objective == pytest.approx(again.objective, rel=2e-4)
    assert 2 * warm.iterations <= min(cold.iterations, again.iterations)
