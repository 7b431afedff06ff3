"""What searches leave open of a gap is closed by packing limits with whole picks, and never by a wrong bound."""

import time
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from coadapt.optimizer.allocation import closing, milp
from coadapt.optimizer.allocation.near import everywhere
from coadapt.optimizer.allocation.opened import Open, narrowed, opened
from coadapt.optimizer.allocation.packing import improve, pack, sweep, tables_for
from coadapt.optimizer.allocation.plan import objective
from coadapt.optimizer.allocation.row_by_row import row_by_row
from coadapt.optimizer.allocation.rows import NOTHING, STAY, columns_of, dual_value
from coadapt.optimizer.allocation.search import Sought
from coadapt.optimizer.allocation.snapshot import Snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.choice_instances import FAMILIES, Instance, draw
from tests.support.choice_jobs import jobs_that_scale, snapshot_of

TYPES = 3
PER_ROW = ("value", "allowed", "required", "offset", "scale", "stay_column", "stay_gain")
seeds = st.integers(0, 10**6)


def jobs(count: int, per_type: float, seed: int, required: float = 0.0) -> Instance:
    """On 1 to 8 GPUs of three types; some may stay where they are, for more than they would gain there anew."""
    rng = np.random.default_rng([count, seed])
    instance = jobs_that_scale(rng, count, TYPES, per_type, spread=0.4)
    stays = rng.random(count) < 0.2
    return replace(
        instance,
        allowed=rng.random(instance.allowed.shape) < 0.9,
        required=rng.random(count) < required,
        stay_column=np.where(stays, rng.integers(0, 4 * TYPES, count), -1),
        stay_gain=rng.uniform(0, 4, count),
    )


def all_open(snapshot: Snapshot, prices: np.ndarray | None = None) -> tuple[Open, np.ndarray]:
    """Every option, and rows' worths at prices of limits, none by default."""
    prices = np.zeros(len(snapshot.capacity)) if prices is None else prices
    of_use, *found = opened(snapshot.everything, snapshot.columns, snapshot.capacity, prices, np.inf)
    assert of_use
    return found[0], found[1]


def best_plan(instance: Instance) -> float:
    """-inf: not all that are required can be served."""
    exact = milp.solve(instance.problem(), time_limit_s=60.0, gap=0.0)
    return -np.inf if exact.unmet else exact.objective


def serving_the_required(instance: Instance, snapshot: Snapshot) -> np.ndarray | None:
    """A plan of these rows alone, with which searches begin; None: not all can be served."""
    picks = snapshot.no_picks()
    if instance.required.any():
        exact = milp.solve(instance.problem(), time_limit_s=60.0, gap=0.0)
        if exact.unmet:
            return None
        column = np.where(instance.required, exact.choice, -1)
        _, pick = snapshot.dense(snapshot.rows.order)
        picks[snapshot.rows.order] = [pick[i, c] if c >= 0 else NOTHING for i, c in enumerate(column)]
    return picks


def assert_a_plan(snapshot: Snapshot, picks: np.ndarray) -> None:
    column = columns_of(snapshot.everything, picks)
    served = column >= 0
    assert (snapshot.usage[:, column[served]].sum(axis=1) <= snapshot.capacity + 1e-9).all()
    assert served[snapshot.rows.required[snapshot.rows.order]].all()


def sought(snapshot: Snapshot, prices: np.ndarray, gap: float = 0.0, limit_s: float = 60.0) -> Sought:
    near = everywhere(snapshot.rows, snapshot.capacity)
    dual = dual_value(snapshot.everything, snapshot.columns, snapshot.capacity, prices)
    return Sought(snapshot, near, prices, dual, gap, time.perf_counter() + limit_s)


def some_prices(seed: int, rows: int, most: float = 3.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, most, rows)


def packed_by_hand(open_: Open, worth: np.ndarray, limit: int, first: int, units: int) -> float:
    """The best of all packings of a limit by rows from one on, tried one after another."""
    choices = [
        [(0, 0.0)]
        + [
            (open_.size[k], open_.gain[k] - worth[i])
            for k in range(open_.begin[i], open_.begin[i + 1])
            if open_.limit[k] == limit
        ]
        for i in range(first, len(open_.row))
    ]
    fit = (each for each in product(*choices) if sum(size for size, _ in each) <= units)
    return max(sum(more for _, more in each) for each in fit)


@given(seeds, st.integers(1, 5), st.integers(1, 12))
@settings(max_examples=40)
def test_tables_know_the_best_packing_of_every_limit_by_the_rows_from_any_on(
    seed: int, count: int, per_type: int
) -> None:
    open_, _ = all_open(snapshot_of(jobs(count, per_type, seed)))
    worth, tables = some_prices(seed, count), tables_for(open_)
    bound = pack(open_, worth, tables, np.empty(count, np.int64))
    for first, limit in product(range(count + 1), range(TYPES)):
        for units in range(open_.capacity[limit] + 1):
            expected = packed_by_hand(open_, worth, limit, first, units)
            assert tables.best[tables.at[first, limit], units] == pytest.approx(expected, abs=1e-9)
    whole = sum(tables.best[tables.at[0, u], open_.capacity[u]] for u in range(TYPES))
    assert bound == pytest.approx(worth.sum() + whole)


@given(seeds, st.integers(1, 12), st.integers(1, 12), st.sampled_from([0.0, 0.3]))
@settings(max_examples=60)
def test_no_plan_is_worth_more_than_any_prices_of_rows_say(
    seed: int, count: int, per_type: int, required: float
) -> None:
    instance = jobs(count, per_type, seed, required)
    open_, price = all_open(snapshot_of(instance))
    best = best_plan(instance)
    assert pack(open_, some_prices(seed, count), tables_for(open_), np.empty(count, np.int64)) >= best - 1e-9
    bound, _ = improve(open_, price, tables_for(open_), 0.9 * max(best, 1.0), best, 0.03, 100)
    assert bound >= best - 1e-9
    assert (price[~open_.must] >= 0.0).all()


@pytest.mark.parametrize("seed", range(5))
def test_prices_of_rows_prove_more_than_prices_of_limits(seed: int) -> None:
    instance = jobs(20, 13, seed)
    snapshot = snapshot_of(instance)
    prices = milp.solve(instance.problem(), time_limit_s=60.0, gap=0.0).prices
    lp = dual_value(snapshot.everything, snapshot.columns, snapshot.capacity, prices)
    open_, worth = all_open(snapshot, prices)
    best = best_plan(instance)
    bound, _ = improve(open_, worth, tables_for(open_), best, best, 0.1, 300)
    assert bound <= lp + 1e-9
    assert bound - best < 0.8 * (lp - best) or lp - best < 1e-9


@given(seeds, st.integers(2, 8), st.integers(2, 10))
@settings(max_examples=25)
def test_what_is_said_of_an_option_holds_for_the_best_plan_that_has_it(
    seed: int, count: int, per_type: int
) -> None:
    instance = jobs(count, per_type, seed)
    snapshot = snapshot_of(instance)
    open_, _ = all_open(snapshot)
    worth, tables = some_prices(seed, count), tables_for(open_)
    packed = np.empty(count, np.int64)
    before = pack(open_, worth, tables, packed)
    bound, with_option, without_row = sweep(open_, worth, tables)
    assert bound <= before + 1e-9
    assert bound == pytest.approx(pack(open_, worth, tables_for(open_), packed))
    assert (worth[~open_.must] >= 0).all()
    problem = instance.problem()
    for i, row in enumerate(open_.row):
        others = problem.allowed.copy()
        others[row] = False
        best = milp.solve(replace(problem, allowed=others), 60.0, 0.0).objective
        assert without_row[i] >= best - 1e-9
        for k in range(open_.begin[i], open_.begin[i + 1]):
            column = snapshot.everything.stay_column[row]
            column = column if open_.pick[k] == STAY else snapshot.everything.column[open_.pick[k]]
            room = problem.capacity - problem.usage[:, column]
            if (room >= 0).all():
                rest = milp.solve(replace(problem, allowed=others, capacity=room), 60.0, 0.0).objective
                assert with_option[k] >= rest + open_.gain[k] - 1e-9


@given(seeds, st.integers(1, 14), st.integers(1, 14), st.sampled_from([0.0, 0.3]), st.sampled_from([1, 4, 10_000]))
@settings(max_examples=100)
def test_row_by_row_the_best_plan_is_found_or_left_out_with_a_bound_that_holds(
    seed: int, count: int, per_type: int, required: float, width: int
) -> None:
    instance = jobs(count, per_type, seed, required)
    open_, worth = all_open(snapshot_of(instance))
    best, tables = best_plan(instance), tables_for(open_)
    if best == -np.inf:
        return
    improve(open_, worth, tables, 0.9 * best, 0.0, 0.03, 20)
    pack(open_, worth, tables, np.empty(count, np.int64))
    gain, left_out, option = row_by_row(open_, worth, tables, 0.5 * best, width)
    assert max(gain, left_out) >= best - 1e-9
    if width == 10_000:
        assert left_out == -np.inf
        assert gain == pytest.approx(best)
    if len(option):
        taken = option[option != NOTHING]
        assert gain == pytest.approx(open_.gain[taken].sum())
        assert gain <= best + 1e-9
        assert (np.bincount(open_.limit[taken], open_.size[taken], TYPES) <= open_.capacity).all()
        assert ((open_.begin[:-1] <= option) & (option < open_.begin[1:]) | (option == NOTHING)).all()


@given(seeds, st.integers(1, 6), st.integers(1, 12), st.floats(0.0, 1.0))
@settings(max_examples=60)
def test_rows_with_one_pick_left_are_settled_and_units_grow_with_what_is_left(
    seed: int, count: int, per_type: int, part: float
) -> None:
    rng = np.random.default_rng(seed)
    open_, _ = all_open(snapshot_of(jobs(count, per_type, seed)))
    open_ = open_._replace(must=rng.random(count) < 0.5)
    keep = rng.random(len(open_.pick)) < part
    less, is_left, settled = narrowed(open_, keep)
    capacity = open_.capacity.copy()
    of_row = {int(row): range(open_.begin[i], open_.begin[i + 1]) for i, row in enumerate(open_.row)}
    for row, pick in zip(settled.row, settled.pick, strict=True):
        assert open_.must[list(open_.row).index(row)]
        (k,) = (k for k in of_row[int(row)] if open_.pick[k] == pick and keep[k])
        capacity[open_.limit[k]] -= open_.size[k]
    for i, row in enumerate(open_.row):
        fitting = [
            open_.pick[k] for k in of_row[int(row)] if keep[k] and open_.size[k] <= capacity[open_.limit[k]]
        ]
        is_settled = row in settled.row
        assert is_left[i] == (not is_settled and bool(fitting or open_.must[i]))
        if is_left[i]:
            j = list(less.row).index(row)
            assert list(less.pick[less.begin[j] : less.begin[j + 1]]) == fitting
            assert not open_.must[i] or len(fitting) != 1
    if (capacity >= 0).all():
        assert (less.size <= less.capacity[less.limit]).all()
    for u in range(TYPES):
        sizes = less.size[less.limit == u]
        assert not len(sizes) or np.gcd.reduce(sizes) in (0, 1)


@given(
    seeds, st.integers(2, 30), st.integers(2, 30), st.sampled_from([0.0, 0.2]), st.sampled_from([0.0, 1e-3, 0.05])
)
@settings(max_examples=100)
def test_from_any_plan_and_prices_one_is_found_that_is_proven_to_be_near_the_best(
    seed: int, count: int, per_type: int, required: float, gap: float
) -> None:
    instance = jobs(count, per_type, seed, required)
    snapshot = snapshot_of(instance)
    picks = serving_the_required(instance, snapshot)
    if picks is None:
        return
    best = best_plan(instance)
    value, bound = closing.close(sought(snapshot, some_prices(seed, TYPES, 0.5), gap), picks, np.inf)
    assert_a_plan(snapshot, picks)
    assert value == pytest.approx(objective(snapshot.rows, picks))
    assert value <= best + 1e-9
    assert bound >= best - 1e-9
    assert bound - value <= max(gap, 1e-3) * bound + 1e-7


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("gap", [0.0, 0.02])
def test_of_programs_of_every_family_bounds_hold_and_plans_fit(family: str, gap: float) -> None:
    for seed in range(6):
        instance = draw(family, seed)
        snapshot = snapshot_of(instance)
        picks = serving_the_required(instance, snapshot)
        if picks is None or not snapshot.usage.size:
            continue
        prices = np.random.default_rng(seed).uniform(0, 0.5, len(snapshot.capacity))
        value, bound = closing.close(sought(snapshot, prices, gap), picks, np.inf)
        assert_a_plan(snapshot, picks)
        best = best_plan(instance)
        assert value <= best + 1e-6 * abs(best)
        assert bound >= best - 1e-6 * abs(best)


def one_limit(gains: list[float], sizes: list[float], capacity: float) -> Snapshot:
    """Rows that each have one pick."""
    count = len(gains)
    instance = replace(
        jobs(count, 1.0, 0),
        value=np.diag(gains),
        allowed=np.eye(count, dtype=bool),
        usage=np.array([sizes]),
        capacity=np.array([capacity]),
        group=np.zeros(count, np.int64),
        size=np.array(sizes),
        offset=np.zeros(count),
        scale=np.ones(count),
        stay_column=np.full(count, -1),
    )
    return snapshot_of(instance)


def test_a_bound_covers_what_is_not_looked_for_as_the_plan_at_hand_is_near_enough() -> None:
    snapshot = one_limit([10.0, 10.9], [1.0, 2.0], 2.0)
    picks = snapshot.no_picks()
    picks[snapshot.rows.order[0]] = snapshot.dense(snapshot.rows.order)[1][0, 0]
    value, bound = closing.close(sought(snapshot, np.array([5.45]), gap=0.1), picks, 15.45)
    assert value >= 10.0
    assert 10.9 <= bound <= value * 1.1 + 1e-9


def test_limits_of_very_many_units_are_as_large_as_they_are() -> None:
    unit = 2.0**37
    snapshot = one_limit([6.6, 5.4, 5.4], [6 * unit, 5 * unit, 5 * unit], 10 * unit)
    picks = snapshot.no_picks()
    value, bound = closing.close(sought(snapshot, np.array([1.08 / unit])), picks, 11.0)
    assert value == pytest.approx(10.8)
    assert bound == pytest.approx(10.8)


@pytest.mark.parametrize("width", [1, 3])
def test_of_more_beginnings_than_there_is_room_for_those_left_out_are_in_the_bound(width: int) -> None:
    instance = few_jobs_that_take_much(0)
    instance = replace(
        instance, **{each: getattr(instance, each)[:5] for each in PER_ROW}, capacity=np.full(7, 8.0)
    )
    snapshot = snapshot_of(instance)
    open_, price = all_open(snapshot)
    assert np.diff(open_.begin).max() > 16
    tables = tables_for(open_)
    pack(open_, price, tables, np.empty(len(open_.row), np.int64))
    gain, left_out, _ = row_by_row(open_, price, tables, 0.0, width)
    assert max(gain, left_out) >= best_plan(instance) - 1e-9
    assert gain <= best_plan(instance) + 1e-9


def test_plans_that_are_near_their_bounds_are_worth_little_work_only(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = snapshot_of(jobs(30, 20, 1))
    whole = snapshot.no_picks()
    best, bound = closing.close(sought(snapshot, np.full(TYPES, 0.3)), whole, np.inf)
    assert bound == pytest.approx(best)
    monkeypatch.setattr(closing, "_MOST_WORK_IF_NEAR", 0)
    near, far = (closing.close(sought(snapshot, np.full(TYPES, 0.3)), whole, best * (1 + f)) for f in (5e-4, 5e-3))
    assert near == (best, best * (1 + 5e-4))
    assert far[1] < best * (1 + closing.FAR)


def few_jobs_that_take_much(seed: int) -> Instance:
    """60 jobs on up to 128 of 320 GPUs of seven types: the LP is 0.5 % above the best plan."""
    rng = np.random.default_rng([60, seed])
    gpus = np.tile(np.concatenate([[1, 2, 4], np.arange(8, 136, 8)]), 7)
    group = np.repeat(np.arange(7), len(gpus) // 7)
    speed = rng.lognormal(0, 0.6, (60, 7))[:, group] * rng.uniform(0.5, 3, 7)[group]
    value = np.sqrt(speed * gpus ** rng.uniform(0.6, 0.98, (60, 1)))
    return replace(
        jobs_that_scale(rng, 60, 1, 1.0, 0.1),
        value=value,
        allowed=np.ones(value.shape, bool),
        usage=np.where(group == np.arange(7)[:, None], gpus, 0).astype(float),
        capacity=np.full(7, 320.0),
        group=group,
        size=gpus.astype(float),
        offset=np.full(60, 1.1),
    )


@pytest.mark.parametrize("seed", range(4))
def test_few_jobs_that_take_much_are_planned_to_a_ten_thousandth_without_branching(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coadapt.optimizer.allocation.solver._MOST_FOR_HIGHS", 0)
    instance = few_jobs_that_take_much(seed)
    found = instance.program().solve(instance.ids, gap=1e-4)
    assert found.proven
    assert found.gap <= 1e-4
    assert milp.solve(instance.problem(), 1.0, 0.0, known=found.choice).objective <= found.bound * (1 + 1e-9)


def test_what_takes_parts_of_a_unit_or_of_several_limits_is_left_as_it_is() -> None:
    instance = jobs(30, 20, 1)
    parts = replace(instance, usage=instance.usage * 0.7)
    several = replace(instance, usage=np.maximum(instance.usage, 1.0))
    for other in (parts, several):
        snapshot = snapshot_of(other)
        picks = snapshot.no_picks()
        assert closing.close(sought(snapshot, np.full(TYPES, 0.3)), picks, 1e3) == (0.0, 1e3)
        assert (picks == NOTHING).all()


def test_limits_of_more_units_than_tables_can_have_are_left_as_they_are() -> None:
    instance = jobs(30, 20, 1)
    large = replace(instance, usage=instance.usage * 1e9 + (instance.usage > 0), capacity=instance.capacity * 1e9)
    snapshot = snapshot_of(large)
    assert closing.close(sought(snapshot, np.full(TYPES, 3e-10)), snapshot.no_picks(), 1e3) == (0.0, 1e3)
    huge = replace(instance, capacity=np.full(TYPES, 1e300))
    snapshot = snapshot_of(huge)
    value, bound = closing.close(sought(snapshot, np.zeros(TYPES)), snapshot.no_picks(), np.inf)
    assert value == pytest.approx(bound) == pytest.approx(best_plan(huge))


def test_after_its_time_nothing_is_looked_for() -> None:
    snapshot = snapshot_of(jobs(30, 20, 1))
    picks = snapshot.no_picks()
    assert closing.close(sought(snapshot, np.full(TYPES, 0.3), limit_s=-1.0), picks, 1e3) == (0.0, 1e3)


def test_rows_that_can_only_stay_are_planned_too() -> None:
    instance = jobs(6, 5, 3)
    stay = replace(instance, allowed=np.zeros_like(instance.allowed), stay_column=np.arange(6) % 4)
    snapshot = snapshot_of(stay)
    picks = snapshot.no_picks()
    value, bound = closing.close(sought(snapshot, np.full(TYPES, 0.1)), picks, np.inf)
    assert value == pytest.approx(bound) == pytest.approx(best_plan(stay))
    assert_a_plan(snapshot, picks)
