"""What a solve leaves for the next: how far prices may move, and what rows are worth, in any units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from coadapt.optimizer.allocation.memory import Memory
from coadapt.optimizer.allocation.snapshot import Snapshot

from tests.support.choice_jobs import jobs_that_scale, snapshot_of

PRICES = np.array([1.0, 2.0])


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return snapshot_of(jobs_that_scale(np.random.default_rng(1), 100, types=2, per_type=80.0, spread=0.5))


def learned(snapshot: Snapshot, *prices: np.ndarray, bound: float = 300.0) -> Memory:
    memory = Memory()
    for one in prices:
        memory.learn(snapshot.program, one, bound)
    return memory


def test_prices_are_expected_to_move_twice_as_far_as_at_the_last_solve_within_limits(snapshot: Snapshot) -> None:
    first = learned(snapshot, PRICES)
    assert first.ahead == 0.02, "nobody knows yet how far they move"
    moved = learned(snapshot, PRICES, PRICES * 1.05)
    assert moved.ahead == pytest.approx(2 * moved.moved)
    assert 0.02 < moved.ahead < 0.15
    assert learned(snapshot, PRICES, PRICES * 9.0).ahead == 0.15
    assert learned(snapshot, PRICES, PRICES).ahead == 0.02


def test_a_price_that_rises_from_0_has_not_moved_infinitely_far(snapshot: Snapshot) -> None:
    assert learned(snapshot, np.array([1.0, 0.0]), np.array([1.0, 1e-3])).moved < 0.01


def test_what_rows_are_worth_does_not_count_what_every_plan_gains(snapshot: Snapshot) -> None:
    plain = learned(snapshot, PRICES, bound=300.0)
    assert plain.worth == pytest.approx(
        3.0
    )  # the bound of 300 for 100 rows: limits are worth 3 x 240, which is more
    more = learned(snapshot, PRICES, bound=1e5)
    assert more.worth == pytest.approx(3 * 240.0 / 100)


def test_where_no_limit_has_a_price_rows_are_worth_a_part_of_the_bound(snapshot: Snapshot) -> None:
    assert learned(snapshot, np.zeros(2), bound=1e5).worth == pytest.approx(1e-3 * 1e5 / 100)
    assert learned(snapshot, np.zeros(2), bound=0.0).worth > 0.0


def test_a_unit_costs_what_all_rows_are_worth_over_what_there_is(snapshot: Snapshot) -> None:
    memory = learned(snapshot, PRICES, bound=300.0)
    assert memory.typical(snapshot.program) == pytest.approx(300.0 / 160.0)
    nothing = snapshot.program._replace(capacity=np.zeros(2))
    assert np.isfinite(memory.typical(nothing))


def test_open_rows_are_sought_in_the_same_box_while_prices_stay_inside(snapshot: Snapshot) -> None:
    fresh = replace(snapshot, known=snapshot.known._replace(state=snapshot.known.state.copy()))
    memory = learned(fresh, PRICES)
    near = memory.near(fresh.program, fresh.known, PRICES, 0.02)
    assert memory.held is near.box
    assert memory.near(fresh.program, fresh.known, PRICES * 1.001, 0.02).box is near.box
    moved = memory.near(fresh.program, fresh.known, PRICES * 1.5, 0.02)
    assert moved.box.holds(PRICES * 1.5)
    assert not moved.box.holds(PRICES)
