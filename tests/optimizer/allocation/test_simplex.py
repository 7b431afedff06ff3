"""The simplex method ends at the optimum of the LP relaxation, with at most one fractional row for each limit."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.optimizer.allocation.options import NOTHING, dual_value
from coadapt.optimizer.allocation.rounding import room_left
from coadapt.optimizer.allocation.simplex import (
    NONE_FIRST,
    Basis,
    cheapest_growth,
    from_plan,
    optimise,
    split_rows,
)
from coadapt.optimizer.allocation.snapshot import Snapshot

from tests.support.choice_instances import Instance, draw
from tests.support.choice_jobs import jobs_that_scale, lp_optimum, snapshot_of

PIVOTS = 100_000


def solved(snapshot: Snapshot, picks: np.ndarray | None = None, enough: float = 0.0) -> tuple[Basis, bool, int]:
    """Return the basis at the end, whether it is optimal, and pivots; from `picks`, by default none."""
    program = snapshot.program
    start = snapshot.no_picks() if picks is None else picks
    basis = from_plan(start, room_left(program, start))
    return basis, *optimise(program.rows, program.columns, basis, NONE_FIRST, 1e-9, enough, PIVOTS)


def proven(snapshot: Snapshot, basis: Basis) -> float:
    program = snapshot.program
    return dual_value(program.rows, program.columns, program.capacity, np.maximum(basis.prices, 0.0))[0]


def jobs(seed: int, rows: int = 120) -> Instance:
    return jobs_that_scale(np.random.default_rng(seed), rows, types=3, per_type=60.0, spread=0.5)


@pytest.mark.parametrize("seed", range(5))
def test_its_prices_prove_the_optimum_of_the_relaxation(seed: int) -> None:
    instance = jobs(seed)
    snapshot = snapshot_of(instance)
    basis, optimal, _ = solved(snapshot)
    assert optimal
    assert proven(snapshot, basis) == pytest.approx(lp_optimum(instance), rel=1e-9)
    assert len(split_rows(basis)) <= len(instance.capacity)


@pytest.mark.parametrize("family", ["goodput of powers of two", "blocks and whole nodes", "scarce", "many rows"])
@pytest.mark.parametrize("seed", range(4))
def test_so_they_do_for_programs_that_schedulers_have(family: str, seed: int) -> None:
    instance = draw(family, seed)
    snapshot = snapshot_of(instance)
    basis, optimal, _ = solved(snapshot)
    assert optimal
    assert proven(snapshot, basis) == pytest.approx(lp_optimum(instance), rel=1e-8, abs=1e-8)


def test_the_basic_variables_are_a_plan_that_fits() -> None:
    instance = jobs(1)
    snapshot = snapshot_of(instance)
    basis, _, _ = solved(snapshot)
    assert (basis.level >= -1e-9).all()
    for row in split_rows(basis):
        assert basis.level[basis.row == row].sum() <= 1.0 + 1e-9


def test_from_a_plan_near_the_optimum_few_pivots_are_needed() -> None:
    instance = jobs(2)
    snapshot = snapshot_of(instance)
    first, _, cold = solved(snapshot)
    picks = first.key.copy()
    picks[split_rows(first)] = NOTHING
    again, optimal, warm = solved(snapshot, picks)
    assert optimal
    assert warm < cold / 5
    assert proven(snapshot, again) == pytest.approx(proven(snapshot, first), rel=1e-9)


def test_it_ends_where_little_enough_is_left_to_gain() -> None:
    instance = jobs(3)
    snapshot = snapshot_of(instance)
    best = lp_optimum(instance)
    exact, _, most = solved(snapshot)
    rough, optimal, fewer = solved(snapshot, enough=1e-2 * best)
    assert optimal
    assert fewer <= most
    assert best - 1e-9 * best <= proven(snapshot, rough) <= 1.02 * best
    assert proven(snapshot, exact) <= proven(snapshot, rough) + 1e-9 * best


def test_with_the_cheapest_growth_first_it_starts_at_about_the_prices_that_are_known() -> None:
    instance = jobs(4)
    snapshot = snapshot_of(instance)
    program = snapshot.program
    best, _, cold = solved(snapshot)
    picks = best.key.copy()
    picks[split_rows(best)] = NOTHING
    basis = from_plan(picks, room_left(program, picks))
    first = cheapest_growth(program.rows, program.columns, basis, best.prices)
    optimal, pivots = optimise(program.rows, program.columns, basis, first, 1e-9, 0.0, PIVOTS)
    assert optimal
    assert pivots < cold / 5
    assert proven(snapshot, basis) == pytest.approx(proven(snapshot, best), rel=1e-9)


def test_it_gives_up_after_so_many_pivots() -> None:
    snapshot = snapshot_of(jobs(5))
    start = snapshot.no_picks()
    basis = from_plan(start, room_left(snapshot.program, start))
    optimal, pivots = optimise(snapshot.program.rows, snapshot.program.columns, basis, NONE_FIRST, 1e-9, 0.0, 10)
    assert not optimal
    assert pivots > 10
