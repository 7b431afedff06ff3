"""Prices are found at which demand meets capacity, from wherever they start."""

from dataclasses import replace

import numpy as np
import pytest
from coadapt.optimizer.allocation import ChoiceProgram
from coadapt.optimizer.allocation.prices import Aim, find_prices, no_shares, smoothed_dual
from coadapt.optimizer.allocation.snapshot import Snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.choice_instances import FAMILIES, LARGER, draw
from tests.support.choice_jobs import jobs_that_scale, snapshot_of

seeds = st.integers(0, 10**6)
TYPES = 4


def smoothed(snapshot: Snapshot, prices: np.ndarray, width: float) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Return the smoothed dual, the dual, what demand leaves of each limit, and how that moves with prices."""
    size = len(prices)
    left, slopes = np.empty(size), np.empty((size, size))
    own = no_shares(len(snapshot.program.rows.concave))
    return (*smoothed_dual(*snapshot.program, prices, width, own, left, slopes, True), left, slopes)


@given(st.sampled_from([*FAMILIES, *LARGER]), seeds, st.sampled_from([0.01, 0.1, 1.0]))
@settings(max_examples=60)
def test_what_is_said_to_be_left_is_the_slope_of_the_smoothed_dual(family: str, seed: int, width: float) -> None:
    snapshot, rng = snapshot_of(draw(family, seed)), np.random.default_rng(seed)
    size = len(snapshot.program.capacity)
    prices, way = rng.uniform(0.1, 1.0, size), rng.normal(size=size)
    change = 1e-2 * width / snapshot.usage.max(initial=1.0) * way
    value, dual, left, slopes = smoothed(snapshot, prices, width)
    after, _, left_after, _ = smoothed(snapshot, prices + change, width)
    before, _, left_before, _ = smoothed(snapshot, prices - change, width)
    # What is worth less than the best by eight widths counts no more: e^-8 of a width a row.
    cut = 1e-3 * len(snapshot.order)
    assert value >= dual - 1e-12 * abs(dual)
    assert after - before == pytest.approx(2 * left @ change, rel=1e-3, abs=cut * width)
    moved = 2 * slopes @ change
    assert left_after - left_before == pytest.approx(moved, rel=1e-2, abs=cut * snapshot.usage.max(initial=1.0))


@pytest.mark.parametrize("worth", np.linspace(0.0, 20.0, 41))
def test_what_is_left_out_of_the_smoothed_dual_is_less_than_a_thousandth_of_a_width(worth: float) -> None:
    # Where it jumps by more, for all of 100,000 rows, no step of Newton's leads on.
    program, width = ChoiceProgram(np.ones((1, 1)), np.ones(1)), 0.1
    program.upsert(["a"], np.full((1, 1), worth * width), np.ones((1, 1), bool))
    value, _, _, _ = smoothed(program._snapshot(program._rows.slots(["a"])), np.zeros(1), width)
    assert value == pytest.approx(width * np.logaddexp(0.0, worth), rel=0, abs=1e-3 * width)


@given(seeds, st.integers(20, 300), st.sampled_from([0.5, 2.0, 6.0]), st.sampled_from([0.0, 0.1, 1.0, 3.0]))
@settings(max_examples=100)
def test_demand_meets_capacity_wherever_the_search_begins(
    seed: int, count: int, each: float, start: float
) -> None:
    rng = np.random.default_rng(seed)
    instance = jobs_that_scale(rng, count, TYPES, 1.0, spread=0.5)
    # Of some types there may be none, or too many.
    capacity = np.floor(rng.dirichlet(np.ones(TYPES)) * each * count)
    snapshot = snapshot_of(replace(instance, capacity=capacity))
    width, prices = 0.02, start * rng.uniform(0, 1, TYPES)
    none, all_ = np.zeros(TYPES), np.full(TYPES, np.inf)
    find_prices(*snapshot.program, none, all_, prices, Aim(0.3, width, 1e-6 * count, 1.0, max(start, 0.5)))
    value, _, left, _ = smoothed(snapshot, prices, width)
    assert (prices >= 0.0).all()
    # What is wanted beyond what there is, and left of what has a price, at the prices.
    money = prices * np.abs(left) + np.maximum(-left, 0.0) * (prices == 0.0)
    assert money.sum() <= 1e-2 * value


def test_prices_that_would_fall_below_0_do_not_keep_the_others_from_moving() -> None:
    rng = np.random.default_rng(3)
    instance = jobs_that_scale(rng, 400, TYPES, 200.0, spread=0.5)
    snapshot = snapshot_of(replace(instance, capacity=np.array([50.0, 100.0, 200.0, 5000.0])))
    none, all_ = np.zeros(TYPES), np.full(TYPES, np.inf)
    values = []
    for seed in range(50):
        prices = np.random.default_rng(seed).uniform(0.0, 1.0, TYPES)
        find_prices(*snapshot.program, none, all_, prices, Aim(0.02, 0.02, 0.01, 0.1, 0.5))
        values.append(smoothed(snapshot, prices, 0.02)[0])
        assert prices[3] == 0.0
    assert max(values) <= 1.001 * min(values)


def test_prices_that_are_a_third_off_are_found_in_some_ten_passes_over_the_rows() -> None:
    count, width, passes = 300, 0.005, []
    none, all_ = np.zeros(TYPES), np.full(TYPES, np.inf)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        instance = jobs_that_scale(rng, count, TYPES, 1.0, spread=0.5)
        capacity = np.floor(rng.dirichlet(np.full(TYPES, 3.0)) * count)
        snapshot = snapshot_of(replace(instance, capacity=capacity))
        within = *snapshot.program, none, all_
        best = np.full(TYPES, 0.5)
        find_prices(*within, best, Aim(0.3, width, 1e-6 * count, 1.0, 0.5))
        prices = best * np.exp(0.3 * rng.normal(size=TYPES))
        passes.append(find_prices(*within, prices, Aim(width, width, 4e-5 * count, 0.1, 0.5))[0])
        assert smoothed(snapshot, prices, width)[0] <= (1 + 5e-5) * smoothed(snapshot, best, width)[0]
    assert np.mean(passes) <= 11


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e3, 1e9])
def test_prices_are_found_as_fast_in_any_units(unit: float) -> None:
    """Two limits counted in other units have other prices, and the rows the same to choose from."""
    count, sizes, passes = 500, np.array([1.0, 2.0, 4.0, 8.0, 16.0]), {1.0: 0, unit: 0}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        capacity = np.floor(rng.dirichlet(np.full(TYPES, 3.0)) * 1.5 * count)
        speed, power = rng.uniform(0.5, 2.0, (count, TYPES, 1)), rng.uniform(0.3, 0.9, (count, TYPES, 1))
        gain = (speed * sizes**power).reshape(count, -1)
        ids = [f"job-{i:04d}" for i in range(count)]
        for size in passes:
            units = np.where(np.arange(TYPES) < 2, size, 1.0)[:, None]
            program = ChoiceProgram(np.kron(np.eye(TYPES), sizes) * units, capacity * units[:, 0])
            for times in (1.0, 1.3):  # from nothing, and where a fifth of the rows changed
                some = count if times == 1.0 else count // 5
                program.upsert(ids[:some], times * gain[:some], np.ones((some, gain.shape[1]), bool))
                found = program.solve(ids, 1e-3)
                assert found.proven
                passes[size] += found.passes
    assert passes[unit] <= 1.5 * passes[1.0]
