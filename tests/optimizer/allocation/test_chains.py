"""Plans put together from what is best for every row, by changes of single rows and tables of the others."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from coadapt.optimizer.allocation import milp
from coadapt.optimizer.allocation.chains import find_chain
from coadapt.optimizer.allocation.plan import objective
from coadapt.optimizer.allocation.residents import give_out, lost, settle_in
from coadapt.optimizer.allocation.rows import NOTHING, best_of, column_of, costs, dual_value, gain_of
from coadapt.optimizer.allocation.simplex import from_plan, nothing_first, optimise
from coadapt.optimizer.allocation.snapshot import Snapshot
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.choice_instances import Instance
from tests.support.choice_jobs import jobs_that_scale, snapshot_of

TYPES = 3
seeds = st.integers(0, 10**6)


def jobs(count: int, per_type: float, seed: int, *, whole: bool = True) -> Instance:
    """Jobs on 1 to 8 GPUs of three types, that scale more or less well; whole: amounts are whole numbers."""
    rng = np.random.default_rng([count, seed])
    instance = jobs_that_scale(rng, count, TYPES, per_type, spread=0.4)
    return replace(
        instance,
        allowed=rng.random(instance.allowed.shape) < 0.9,
        usage=instance.usage * (1.0 if whole else 0.7),
        required=rng.random(count) < 0.1,
    )


def costs_of(snapshot: Snapshot, prices: np.ndarray) -> np.ndarray:
    cost = np.empty(snapshot.usage.shape[1])
    costs(snapshot.columns, prices, cost)
    return cost


@given(seeds, st.integers(1, 5), st.floats(0.05, 1.0), st.floats(0.0, 3.0))
@settings(max_examples=60)
def test_a_table_knows_the_least_that_rows_lose_in_a_limit_however_much_is_left(
    seed: int, count: int, price: float, budget: float
) -> None:
    snapshot = snapshot_of(jobs(count, 1e3, seed))
    rows, columns = snapshot.everything, snapshot.columns
    prices = np.array([price, 1e6, 1e6])  # no other type is worth it
    cost = costs_of(snapshot, prices)
    assume(not rows.required[rows.order].any())
    left = np.zeros(TYPES)
    begin = np.array([0, count, count, count])
    table = settle_in(rows, columns, cost, budget, prices, np.arange(count), begin, left)

    def options(row: int) -> list[tuple[int, float, float]]:
        """(pick, loss, amount) of each that loses no more than the budget."""
        best = best_of(rows, row, cost)[0]
        found = [(NOTHING, best, 0.0)]
        for k in range(rows.begin[row, 0], rows.end[row, 0]):
            column = column_of(rows, row, k)
            found.append((k, best - gain_of(rows, row, k) + cost[column], float(snapshot.usage[0, column])))
        return [option for option in found if option[1] <= budget]

    plans = list(product(*(options(row) for row in rows.order)))
    for spare in range(-10, 11):
        room = spare - left[0]
        short = [
            sum(loss for _, loss, _ in plan) + (room - sum(amount for *_, amount in plan)) * price
            for plan in plans
            if sum(amount for *_, amount in plan) <= room
        ]
        least = min(short, default=np.inf)
        found = lost(table, 0, float(spare), price)
        if least > budget:  # what costs more together is not kept
            assert found > budget
            continue
        assert found == pytest.approx(least, abs=1e-9)
        picks = snapshot.no_picks()
        give_out(table, rows, np.array([float(spare), 0.0, 0.0]), picks)
        taken = snapshot.capacity[0] - snapshot.room(picks)[0]
        loss = sum(best_of(rows, r, cost)[0] - gain_of(rows, r, picks[r]) for r in rows.order) + taken * price
        assert taken <= room
        assert loss + (room - taken) * price == pytest.approx(least, abs=1e-9)


@given(seeds, st.integers(5, 80), st.booleans())
@settings(max_examples=60)
def test_a_chain_of_changes_is_a_plan_that_falls_short_by_what_it_says(seed: int, count: int, whole: bool) -> None:
    snapshot = snapshot_of(jobs(count, float(count), seed, whole=whole))
    rows, columns, capacity = snapshot.everything, snapshot.columns, snapshot.capacity
    prices = np.random.default_rng(seed).uniform(0.1, 1.0, TYPES)
    dual = dual_value(rows, columns, capacity, prices)
    picks = snapshot.no_picks()
    before = picks.copy()
    budget = 0.3 * dual
    short = find_chain(rows, columns, capacity, prices, picks, budget, 0.0, budget, 16, 8, 8)
    if short == np.inf:
        assert (picks == before).all()
        return
    assert short < budget
    assert (snapshot.room(picks) >= -1e-9).all()
    assert dual - objective(rows, picks) == pytest.approx(short, abs=1e-6 * dual)
    assert (picks[rows.order[rows.required[rows.order]]] != NOTHING).all()


def test_many_rows_of_one_kind_make_way_together() -> None:
    """A large job fits only where a dozen small ones leave for another type, where each of them loses a little."""
    small, large = 12, 8.0
    value = np.zeros((small + 1, 3))
    value[:small, 0], value[:small, 1] = 1.0, 0.99
    value[small, 2] = 2.0
    usage = np.array([[1.0, 0.0, large], [0.0, 1.0, 0.0]])
    nothing = np.zeros(small + 1)
    instance = Instance(
        value=value,
        allowed=value > 0,
        usage=usage,
        capacity=np.array([12.0, 8.0]),
        group=np.array([0, 1, 0]),
        size=np.array([1.0, 1.0, large]),
        required=np.zeros(small + 1, bool),
        offset=nothing,
        scale=np.ones(small + 1),
        stay_column=np.full(small + 1, -1),
        stay_gain=nothing,
    )
    snapshot = snapshot_of(instance)
    rows, columns, capacity = snapshot.everything, snapshot.columns, snapshot.capacity
    prices = np.array([0.01, 0.0])
    picks = snapshot.no_picks()
    find_chain(rows, columns, capacity, prices, picks, 10.0, 0.0, 10.0, 16, 8, 12)
    best = milp.solve(instance.problem(), gap=0.0)
    assert objective(rows, picks) == pytest.approx(best.objective)
    assert best.objective == pytest.approx(2.0 + 4 * 1.0 + 8 * 0.99)


@given(seeds, st.integers(50, 250), st.sampled_from([1e-3, 1e-2, 3e-2]))
@settings(max_examples=20)
def test_prices_are_within_what_was_left_of_the_lp_even_where_its_last_pivots_are_left_out(
    seed: int, count: int, part: float
) -> None:
    instance = jobs(count, float(count), seed)
    instance.required[:] = False
    snapshot = snapshot_of(instance)
    rows, columns, capacity = snapshot.rows, snapshot.columns, snapshot.capacity
    best = milp.solve(instance.problem(), gap=1.0).bound
    basis, enough = from_plan(snapshot.no_picks(), capacity.copy()), part * best
    reached, _ = optimise(rows, columns, basis, nothing_first(), 1e-9, enough, 100_000)
    assert reached
    assert dual_value(rows, columns, capacity, np.maximum(basis.prices, 0.0)) <= best + enough
