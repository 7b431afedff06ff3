"""Programs whose whole plans are far from what the LP says: their gap is closed, or truly told."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from coadapt.optimizer.allocation import ChoiceSolution, exact, milp, solver
from coadapt.optimizer.allocation.plan import objective
from coadapt.optimizer.allocation.rows import Ints
from coadapt.optimizer.allocation.search import Sought
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.choice_instances import Instance

ROWS, TYPES, MOST = 60, 7, 32  # 2,520 options
FAR = 1e-3


def few_large_jobs(seed: int) -> Instance:
    """Jobs that scale well, on 1 to 32 GPUs of seven types with 30 each: hardly any plan uses them all."""
    rng = np.random.default_rng([ROWS, seed])
    gpus = np.tile(2 ** np.arange(int(np.log2(MOST)) + 1), TYPES)
    group = np.repeat(np.arange(TYPES), len(gpus) // TYPES)
    speed = rng.lognormal(0, 0.6, (ROWS, TYPES))[:, group] * rng.uniform(0.5, 3, TYPES)[group]
    value = np.sqrt(speed * gpus ** rng.uniform(0.6, 0.98, (ROWS, 1)))
    return Instance(
        value=value,
        allowed=np.ones(value.shape, bool),
        usage=np.where(group == np.arange(TYPES)[:, None], gpus, 0).astype(float),
        capacity=np.full(TYPES, 30.0),
        group=group,
        size=gpus.astype(float),
        required=np.zeros(ROWS, bool),
        offset=np.full(ROWS, 1.1),
        scale=np.ones(ROWS),
        stay_column=np.full(ROWS, -1),
        stay_gain=np.zeros(ROWS),
    )


def assert_right(instance: Instance, found: ChoiceSolution) -> None:
    problem = instance.problem()
    row = np.flatnonzero(found.choice >= 0)
    column = found.choice[row]
    assert (problem.usage[:, column].sum(axis=1) <= problem.capacity + 1e-9).all()
    assert found.objective == pytest.approx(problem.value[row, column].sum(), rel=1e-9)
    best = milp.solve(problem, time_limit_s=1.0, gap=0.0, known=found.choice)
    assert best.objective <= found.bound * (1 + 1e-9)


def in_parts(instance: Instance) -> Instance:
    """The same with GPUs in parts, which only HiGHS can go on with."""
    return replace(instance, usage=instance.usage * 0.7, capacity=instance.capacity * 0.7)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("parts", [False, True])
def test_a_plan_of_few_jobs_is_within_a_thousandth_of_the_best(seed: int, parts: bool) -> None:
    instance = in_parts(few_large_jobs(seed)) if parts else few_large_jobs(seed)
    # It takes a tenth of a second, but who knows where.
    found = instance.program().solve(instance.ids, gap=1e-4, time_limit_s=60.0)
    assert_right(instance, found)
    assert found.gap <= FAR


def untouched(sought: Sought, picks: Ints, bound: float) -> tuple[float, float]:
    return objective(sought.snapshot.rows, picks), bound


def test_searches_alone_would_leave_some_of_them_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "close", untouched)
    monkeypatch.setattr(solver, "branch", lambda _snapshot, _prices, _picks, value, bound, *_: (value, bound))
    instances = [few_large_jobs(seed) for seed in range(8)]
    assert any(instance.program().solve(instance.ids, gap=1e-4).gap > FAR for instance in instances)


def test_what_nothing_else_closes_has_all_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []

    def branch(*given: Any) -> tuple[float, float]:
        left.append(given[-1])
        return exact.branch(*given)

    monkeypatch.setattr(solver, "branch", branch)
    for seed in range(8):
        instance = in_parts(few_large_jobs(seed))
        instance.program().solve(instance.ids, gap=1e-4, time_limit_s=1000.0)
    assert left
    assert min(left) > 900.0


@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_closing_never_makes_a_plan_worse_and_its_bounds_hold(seed: int) -> None:
    instance = few_large_jobs(seed)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(solver, "_MOST_FOR_HIGHS", 0)
        found = instance.program().solve(instance.ids, gap=1e-4)
        patched.setattr(solver, "close", untouched)
        without = instance.program().solve(instance.ids, gap=1e-4)
    assert_right(instance, found)
    assert found.objective >= without.objective
    assert found.bound <= without.bound * (1 + 1e-12)


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=10)
def test_jobs_that_must_run_do_so_in_any_of_these_plans(seed: int, parts: bool) -> None:
    rng = np.random.default_rng(seed)
    instance = replace(few_large_jobs(seed), required=rng.random(ROWS) < 0.3)
    instance = in_parts(instance) if parts else instance
    for most in (0, 10_000):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(solver, "_MOST_FOR_HIGHS", most)
            found = instance.program().solve(instance.ids, gap=1e-4)
        assert_right(instance, found)
        assert (found.choice[instance.required] >= 0).all()
        assert not found.unmet
