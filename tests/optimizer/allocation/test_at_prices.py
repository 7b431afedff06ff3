"""Plans straight from prices are made where they are good enough, and held to what every plan is held to."""

from dataclasses import replace

import numpy as np
import pytest
from coadapt.optimizer.allocation import ChoiceProgram, solver
from coadapt.optimizer.allocation.at_prices import take_at
from coadapt.optimizer.allocation.memory import Memory
from coadapt.optimizer.allocation.near import REACH, Near, Priced, dual_near, everywhere
from coadapt.optimizer.allocation.plan import fill, objective
from coadapt.optimizer.allocation.rows import NOTHING, columns_of, dual_value
from coadapt.optimizer.allocation.search import EXACT_ROWS
from coadapt.optimizer.allocation.snapshot import Found, Snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.choice_instances import Instance
from tests.support.choice_jobs import jobs_that_scale

GAP = 1e-3
TYPES = 3
seeds = st.integers(0, 10**6)


def jobs(count: int, seed: int) -> Instance:
    """There are two GPUs for each job, of which it may not have all sizes and types."""
    rng = np.random.default_rng([count, seed])
    each = float(np.floor(2.0 * count / TYPES))
    instance = jobs_that_scale(rng, count, TYPES, each, spread=0.3)
    return replace(instance, allowed=rng.random(instance.allowed.shape) < 0.9)


@given(
    seeds,
    st.integers(EXACT_ROWS + 1, 600),
    st.sampled_from([0.99, 0.998, 1.0, 1.002, 1.01]),
    st.booleans(),
    st.sampled_from([1e-9, 1e-3, 1e-2, 0.1]),
)
@settings(max_examples=100)
def test_at_whatever_prices_a_plan_fits_and_is_worth_what_it_says(
    seed: int, count: int, off: float, settled: bool, width: float
) -> None:
    instance = jobs(count, seed)
    program = instance.program()
    lp = program.solve(instance.ids, GAP)
    anew = instance.program()
    snapshot = anew._snapshot(anew._slots(instance.ids))
    prices = off * lp.prices
    near = Memory().near(snapshot, prices, REACH) if settled else everywhere(snapshot.rows, snapshot.capacity)
    assert not settled or len(near.order) < count
    found = take_at(
        snapshot, Priced(near, prices, dual_near(snapshot.rows, snapshot.columns, near, prices), 0, width), gap=1.0
    )
    if found is None:
        assert (near.room < 0.0).any()
        return
    column = columns_of(snapshot.rows, found.picks)
    row = np.flatnonzero(column >= 0)
    assert instance.allowed[row, column[row]].all()
    assert (instance.usage[:, column[row]].sum(axis=1) <= instance.capacity + 1e-9).all()
    assert found.objective == pytest.approx(instance.value[row, column[row]].sum(), rel=1e-9)
    assert max(found.objective, lp.objective) <= found.bound * (1 + 1e-9)


def test_of_many_jobs_most_plans_need_no_vertex_once_prices_are_known() -> None:
    early = 0
    for seed in range(20):
        instance, rng = jobs(600, seed), np.random.default_rng(seed)
        program = instance.program()
        program.solve(instance.ids, GAP)
        changed = [instance.ids[row] for row in rng.choice(600, 60, replace=False)]
        program.weigh(changed, np.zeros(60), rng.uniform(0.9, 1.1, 60))
        found = program.solve(instance.ids, GAP)
        assert found.proven
        early += found.passes > 0 and found.pivots == 0
    assert early > 10


def test_where_the_gap_is_loose_the_last_prices_mostly_do() -> None:
    gaps = []
    for seed in range(20):
        instance, rng = jobs(600, seed), np.random.default_rng(seed)
        program = instance.program()
        before = program.solve(instance.ids, 1e-2)
        program.weigh(instance.ids, np.zeros(600), rng.uniform(0.98, 1.02, 600))
        found = program.solve(instance.ids, 1e-2)
        best = program.solve(instance.ids, 1e-4)
        assert found.proven
        assert found.objective <= best.bound * (1 + 1e-9)
        assert best.objective <= found.bound * (1 + 1e-9)
        if found.passes == 0:
            gaps.append(found.gap)
            assert (found.prices == before.prices).all()
    assert len(gaps) > 10
    assert np.mean(gaps) < 5e-5  # shares of wider ones would lose twice as much


def test_a_plan_is_held_against_the_bound_of_finer_prices_before_another_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[Priced] = []

    def take(snapshot: Snapshot, priced: Priced, gap: float) -> Found | None:
        tried.append(priced._replace(prices=priced.prices.copy()))
        return take_at(snapshot, priced, gap)

    monkeypatch.setattr(solver, "take_at", take)
    finer = 0
    for seed in range(40):
        instance = jobs(600, seed)
        rough = instance.program().solve(instance.ids, 1e-2)
        program = instance.program()
        tried.clear()
        found = program.solve(instance.ids, 0.98 * rough.gap)
        if found.pivots == 0 and len(tried) == 1 and (found.prices != tried[0].prices).any():
            finer += 1
            snapshot = program._snapshot(program._slots(instance.ids))
            assert found.bound == pytest.approx(dual_value(*snapshot.frame, found.prices), rel=1e-12)
            assert found.bound < tried[0].dual
            assert found.proven
    assert finer > 0


def test_a_plan_from_prices_is_kept_where_the_vertex_gives_a_worse_one(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Found | None] = []

    def take(snapshot: Snapshot, priced: Priced, gap: float) -> Found | None:
        plans.append(take_at(snapshot, priced, gap))
        return plans[-1]

    def spoil(snapshot: Snapshot, near: Near, prices: object, picks: np.ndarray, *_: object) -> None:
        picks[:] = NOTHING

    monkeypatch.setattr(solver, "take_at", take)
    monkeypatch.setattr(solver, "make_whole", spoil)
    monkeypatch.setattr(solver, "search", lambda sought, value, bound, picks: (value, np.inf))
    spoilt = 0
    for seed in range(20):
        instance = jobs_that_scale(np.random.default_rng(seed), 60, types=8, per_type=15.0, spread=0.3)
        plans.clear()
        found = instance.program().solve(instance.ids, 3.4e-3, time_limit_s=0.0)
        best = max(plan.objective for plan in plans if plan is not None)
        assert found.objective >= best * (1 - 1e-12)
        spoilt += found.bound == np.inf
    assert spoilt > 0


def test_few_jobs_are_left_to_the_exact_search() -> None:
    few = jobs(EXACT_ROWS, 0)
    program = few.program()
    snapshot = program._snapshot(program._slots(few.ids))
    found = program.solve(few.ids, GAP)
    near = everywhere(snapshot.rows, snapshot.capacity)
    assert take_at(snapshot, Priced(near, found.prices, found.bound, 0, 0.01), gap=1.0) is None


def test_jobs_that_must_run_do_whatever_prices_say() -> None:
    instance = replace(jobs(200, 1), required=np.arange(200) < 20)
    found = instance.program().solve(instance.ids, GAP)
    assert (found.choice[:20] >= 0).all()
    assert not found.unmet


def test_what_has_no_price_is_given_away_too() -> None:
    program = ChoiceProgram(np.array([[1.0, 2.0, 4.0, 8.0]]), np.array([100.0]))
    program.put(["job"], np.array([[1.0, 2.0, 3.0, 4.0]]), np.ones((1, 4), bool))
    snapshot = program._snapshot(program._slots(["job"]))
    first = int(snapshot.everything.begin[0, 0])
    picks, room = np.array([first]), np.array([99.0])
    fill(snapshot.everything, snapshot.columns, np.zeros(1), picks, room, 1e-7, 20)
    assert objective(snapshot.everything, picks) == 4.0
