"""What the solver remembers from one solve to the next never makes a plan or a bound wrong."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from coadapt.optimizer.allocation import ChoiceProgram, pool
from coadapt.optimizer.allocation.box import (
    FIXED,
    NO_BOX,
    REACH,
    Box,
    Known,
    bound_at,
    box_around,
    near_around,
    nearer,
    seek,
)
from coadapt.optimizer.allocation.options import NOTHING, STAY, best_of, column_of, costs, dual_value, gain_of
from coadapt.optimizer.allocation.prices import Aim
from coadapt.optimizer.allocation.snapshot import Snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.choice_instances import FAMILIES, LARGER, Instance, draw
from tests.support.choice_jobs import jobs_that_scale, snapshot_of

every_family = st.sampled_from([*FAMILIES, *LARGER])
seeds = st.integers(0, 10**6)
fixed = settings(max_examples=60)


def some_prices(snapshot: Snapshot, rng: np.random.Generator) -> np.ndarray:
    """Return prices of about the right size; those of some limits are 0."""
    rows, columns, capacity = snapshot.program
    none = np.zeros(len(capacity))
    free = rows._replace(required=np.zeros_like(rows.required))
    typical = dual_value(free, columns, capacity, none)[0] / max(capacity.sum(), 1.0)
    return np.where(rng.random(len(none)) < 0.3, 0.0, typical * rng.uniform(0, 2, len(none)))


def costs_at(snapshot: Snapshot, prices: np.ndarray) -> np.ndarray:
    cost = np.empty(len(snapshot.program.columns.barred))
    costs(snapshot.program.columns, prices, cost)
    return cost


def fixed_rows(snapshot: Snapshot) -> np.ndarray:
    return snapshot.order[snapshot.known.state[snapshot.order] == FIXED]


def check_fixed(snapshot: Snapshot, box: Box, rng: np.random.Generator, points: int = 20) -> None:
    """Check that fixed rows pick what is remembered, at any prices in the box."""
    for part in rng.random((points, len(box.low))).round(rng.integers(0, 3)):  # corners, and points between
        cost = costs_at(snapshot, box.low + part * (box.high - box.low))
        for row in fixed_rows(snapshot):
            assert best_of(snapshot.program.rows, row, cost)[1] == snapshot.known.pick[row]


@given(every_family, seeds)
@fixed
def test_the_best_option_is_found_wherever_it_was_last(family: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    snapshot = snapshot_of(draw(family, seed))
    rows = snapshot.program.rows
    for _ in range(5):
        cost = costs_at(snapshot, some_prices(snapshot, rng))
        rows.top[:] = rng.integers(0, 1 + int((rows.end - rows.begin).max(initial=0)) * 2, rows.top.shape)
        for row in rows.order:
            options = [k for a, b in zip(rows.begin[row], rows.end[row], strict=True) for k in range(a, b)]
            picks = [*options, *([STAY] if rows.stay_column[row] >= 0 else []), NOTHING]
            taken = [column_of(rows, row, k) for k in picks]
            costs_of = [cost[column] if column >= 0 else 0.0 for column in taken]
            worths = [gain_of(rows, row, k) - less for k, less in zip(picks, costs_of, strict=True)]
            worth, pick = best_of(rows, row, cost)
            assert worth == pytest.approx(max(worths), rel=1e-9, abs=1e-9)
            assert worth == worths[picks.index(pick)]


@given(every_family, seeds, st.sampled_from([1e-3, 0.03, 0.3]))
@fixed
def test_no_prices_in_a_box_change_the_pick_of_a_row_that_is_fixed_in_it(
    family: str, seed: int, reach: float
) -> None:
    rng = np.random.default_rng(seed)
    snapshot = snapshot_of(draw(family, seed))
    near = near_around(snapshot.program, snapshot.known, NO_BOX, some_prices(snapshot, rng), reach, 1.0)
    half = Box(near.box.low, (near.box.low + near.box.high) / 2, reach)
    own = Known(np.zeros_like(snapshot.known.state), snapshot.known.pick.copy())
    nearest = nearer(snapshot.program, near, half, own)
    assert set(near.order) == set(snapshot.order) - set(fixed_rows(snapshot))
    assert set(nearest.order) <= set(near.order)
    for part in rng.random((20, len(near.box.low))).round(rng.integers(0, 3)):
        for each in (near, nearest):
            prices = each.box.low + part * (each.box.high - each.box.low)
            found = bound_at(snapshot.program, each, prices)
            assert found == pytest.approx(dual_value(*snapshot.program, prices)[0], rel=1e-9, abs=1e-9)
    check_fixed(snapshot, near.box, rng)


@given(every_family, seeds)
@fixed
def test_a_smaller_box_is_remembered_with_the_rows_it_fixes(family: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    snapshot = snapshot_of(draw(family, seed))
    prices = some_prices(snapshot, rng)
    wide = near_around(snapshot.program, snapshot.known, NO_BOX, prices, 0.3, 1.0)
    small = nearer(snapshot.program, wide, box_around(prices, 0.02, 1.0), snapshot.known)
    assert set(small.order) == set(snapshot.order) - set(fixed_rows(snapshot)) <= set(wide.order)
    check_fixed(snapshot, small.box, rng)
    again = near_around(snapshot.program, snapshot.known, small.box, prices, 0.02, 1.0)
    assert again.box is small.box
    assert set(again.order) == set(small.order)
    assert again.gain == pytest.approx(small.gain, rel=1e-12, abs=1e-12)


@given(every_family, seeds, st.sampled_from([0.3, 1.0, 3.0]), st.sampled_from([0.02, 0.15]))
@settings(max_examples=100)
def test_the_box_holds_the_prices_that_are_found_and_the_bound_is_that_of_all_rows(
    family: str, seed: int, times: float, ahead: float
) -> None:
    snapshot = snapshot_of(draw(family, seed)).without_requirements(range(len(draw(family, seed).ids)))
    program, worth, count = snapshot.program, snapshot.gain_per_row() or 1.0, len(snapshot.order)
    typical = worth * count / max(program.capacity.sum(), 1.0)
    prices = times * typical * np.random.default_rng(seed).random(len(program.capacity))
    before = dual_value(*program, prices)[0]
    aim = Aim(5e-3 * worth, 5e-3 * worth, 4e-5 * worth * count, 0.1, typical)
    near, _, bound = seek(program, snapshot.known, NO_BOX, ahead, REACH, aim, prices)
    assert near.box.holds(prices)
    assert bound == pytest.approx(dual_value(*program, prices)[0], rel=1e-9, abs=1e-9)
    most_picks = 1 + (program.rows.end - program.rows.begin).sum(axis=1).max(initial=0)
    assert bound <= before + count * aim.width * np.log(most_picks + 1) + 1e-9  # smoothed, it is no higher
    assert set(near.order) == set(snapshot.order) - set(fixed_rows(snapshot))
    check_fixed(snapshot, near.box, np.random.default_rng(seed), points=3)


@pytest.mark.parametrize("gap", [1e-3, 1e-4])
@pytest.mark.parametrize(("few", "many", "each"), [(0, 300, 200.0), (20, 1000, 500.0), (5, 2000, 400.0)])
def test_where_gpus_were_free_and_many_jobs_come_the_round_is_proven_as_one_from_nothing(
    few: int, many: int, each: float, gap: float
) -> None:
    for seed in range(3):
        instance = jobs_that_scale(np.random.default_rng(seed), many, types=3, per_type=each, spread=0.3)
        ids, program = instance.ids, ChoiceProgram(instance.usage, instance.capacity)
        program.upsert(ids[:few], instance.value[:few], instance.allowed[:few])
        assert not program.solve(ids[:few], gap).prices.any()
        program.upsert(ids[few:], instance.value[few:], instance.allowed[few:])
        found, anew = program.solve(ids, gap), instance.program().solve(ids, gap)
        assert found.proven
        assert found.objective <= anew.bound * (1 + 1e-9)
        assert anew.objective <= found.bound * (1 + 1e-9)
        assert found.passes <= 100


@pytest.mark.parametrize("seed", range(6))
def test_a_column_that_comes_to_fit_is_looked_at_by_rows_that_were_fixed_without_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = [f"row {i}" for i in range(100)]
    value = rng.uniform(1, 2, (100, 1)) * np.array([1.0, 1.5, 1.6])
    value[:3, 2] = rng.uniform(300, 400, 3)
    usage, allowed = np.array([[1.0, 2.0, 50.0]]), np.ones((100, 3), bool)
    program = ChoiceProgram(usage, np.array([49.0]))
    program.upsert(ids, value, allowed)
    program.solve(ids, gap=1e-3)
    program.set_capacity(np.array([51.0]))
    found = program.solve(ids, gap=1e-3)
    best = value[:3, 2].max()  # and something for the GPU that is left
    assert found.bound >= found.objective >= best + 1.0 - 1e-3 * best


def snapshot_again(program: ChoiceProgram, ids: list[str]) -> Snapshot:
    return program._snapshot(program._rows.slots(ids))


def changed(instance: Instance, program: ChoiceProgram, rng: np.random.Generator) -> Instance:
    """Change some weights, some values and some columns to stay in, and now and then the capacity."""
    rows, columns = instance.value.shape
    some = np.flatnonzero(rng.random(rows) < rng.choice([0.02, 0.2, 0.9]))
    value, scale, stay = instance.value.copy(), instance.scale.copy(), instance.stay_column.copy()
    match rng.integers(4):
        case 0:
            scale[some] *= rng.uniform(0.7, 1.4, len(some))
        case 1:
            value[some] *= rng.uniform(0.9, 1.1, (len(some), 1))
        case 2:
            stay[some] = rng.integers(-1, columns, len(some))
    capacity = instance.capacity
    if rng.random() < 0.3:
        capacity = np.maximum(capacity + rng.integers(-2, 3, len(capacity)), 0.0)
        program.set_capacity(capacity)
    found = replace(instance, value=value, scale=scale, stay_column=stay, capacity=capacity)
    found.put(program, some)
    return found


@given(every_family, seeds)
@settings(max_examples=20)
def test_a_program_kept_through_many_changes_finds_what_a_new_one_finds(family: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = draw(family, seed)
    program = instance.program()
    for _ in range(6):
        kept = program.solve(instance.ids, gap=1e-3, time_limit_s=0.5)
        new = instance.program().solve(instance.ids, gap=1e-3, time_limit_s=0.5)
        slack = 1e-6 * max(1.0, abs(new.bound))
        assert kept.objective <= new.bound + slack
        assert new.objective <= kept.bound + slack
        assert kept.unmet == new.unmet
        assert (program.usage[:, kept.choice[kept.choice >= 0]].sum(axis=1) <= program.capacity + 1e-9).all()
        if len(program._memory.held.low):
            check_fixed(snapshot_again(program, instance.ids), program._memory.held, rng, points=3)
        instance = changed(instance, program, rng)


@given(every_family, seeds)
@settings(max_examples=30)
def test_where_nothing_changed_the_last_plan_is_the_answer(family: str, seed: int) -> None:
    instance = draw(family, seed)
    program = instance.program()
    first = program.solve(instance.ids, gap=0.01)
    program.set_weights(instance.ids, instance.offset, instance.scale)
    program.set_incumbents(instance.ids, instance.stay_column, instance.stay_gain)
    program.set_capacity(instance.capacity)
    choice = first.choice.copy()
    first.choice[:] = -2  # a plan belongs to who asked for it
    again = program.solve(instance.ids, gap=0.01)
    assert (again.choice == choice).all()
    assert (again.objective, again.bound, again.unmet) == (first.objective, first.bound, first.unmet)
    assert again.passes == again.pivots == 0
    kept: ChoiceProgram = pickle.loads(pickle.dumps(program))
    assert (kept.solve(instance.ids, gap=0.01).choice == choice).all()
    again.choice[:] = -2
    assert (program.solve(instance.ids, gap=0.01).choice == choice).all()


def test_what_a_row_gains_in_no_column_of_its_own_is_no_change() -> None:
    program = ChoiceProgram(np.array([[1.0]]), np.array([1.0]))
    program.upsert(["row"], np.ones((1, 1)), np.ones((1, 1), bool))
    program.set_incumbents(["row"], np.array([-1]), np.array([0.0]))
    program.solve(["row"])
    program.set_incumbents(["row"], np.array([-1]), np.array([np.nan]))
    assert program.solve(["row"]).passes == 0


def test_a_plan_that_time_ran_out_on_is_searched_for_again() -> None:
    """Five rows that take 3 and 13 that there are: one of them must take 1."""
    program = ChoiceProgram(np.array([[1.0, 3.0]]), np.array([13.0]))
    ids = [f"row {i}" for i in range(5)]
    program.upsert(ids, np.tile([1.0, 2.9], (5, 1)), np.ones((5, 2), bool))
    hasty = program.solve(ids, gap=0.0, time_limit_s=0.0)
    patient = program.solve(ids, gap=0.0)
    assert hasty.passes > 0
    assert patient.proven
    assert patient.objective >= hasty.objective


def test_a_program_that_lost_all_its_rows_is_solved_for_new_ones() -> None:
    rng = np.random.default_rng(0)
    gpus = np.array([[1.0, 2.0, 4.0, 8.0]])
    program = ChoiceProgram(gpus, np.array([1500.0]))
    many = [f"job-{i}" for i in range(1000)]
    gain = np.array([1.0, 1.7, 2.6, 3.5]) * (1 + 1e-4 * rng.random((1000, 1)))
    program.upsert(many, gain, np.ones((1000, 4), bool))
    program.solve(many, gap=0.0, time_limit_s=0.0)
    assert not program.set_limits(np.array([[1.0, 2.0, 4.0, 3.0]]), np.array([67.0]))
    few = many[:45]
    program.upsert(few, gain[:45], np.tile([True, True, True, False], (45, 1)))
    assert program.solve(few, gap=1e-9).proven


def test_more_options_than_can_be_numbered_are_refused_before_anything_is_put(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = ChoiceProgram(np.array([[1.0, 2.0]]), np.array([4.0]))
    program.upsert(["first"], np.ones((1, 2)), np.ones((1, 2), bool))
    monkeypatch.setattr(pool, "_MOST_OPTIONS", 30)
    with pytest.raises(MemoryError, match="options: there would be 32, and a program has room for 30"):
        program.upsert(["second", "third"], np.tile([1.0, 3.0], (2, 1)), np.ones((2, 2), bool))
    assert program.solve(["first"]).objective == 1.0
