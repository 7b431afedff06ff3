"""A program of which little changed keeps its plan but for that, and says truly how good it still is."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from coadapt.optimizer.allocation import ChoiceSolution
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.choice_instances import Instance
from tests.support.choice_jobs import jobs_that_scale

GAP = 1e-3
ROWS, TYPES = 300, 3
seeds = st.integers(0, 10**6)
fixed = settings(max_examples=25)


def many_jobs(seed: int) -> Instance:
    """There are two GPUs for each job."""
    return jobs_that_scale(np.random.default_rng(seed), ROWS, TYPES, 2.0 * ROWS / TYPES, spread=0.3)


def assert_right(instance: Instance, found: ChoiceSolution) -> None:
    """It fits, is worth what it says, and what a new program finds does not contradict its bound."""
    problem = instance.problem()
    row = np.flatnonzero(found.choice >= 0)
    column = found.choice[row]
    assert problem.allowed[row, column].all()
    assert (problem.usage[:, column].sum(axis=1) <= problem.capacity + 1e-9).all()
    assert found.objective == pytest.approx(problem.value[row, column].sum(), rel=1e-9)
    assert found.proven == (found.gap <= GAP + 1e-7)
    new = instance.program().solve(instance.ids, GAP)
    slack = 1e-9 * new.bound
    assert found.objective <= new.bound + slack
    assert new.objective <= found.bound + slack


def was_mended(found: ChoiceSolution) -> bool:
    return found.passes == found.pivots == 0


@given(seeds)
@fixed
def test_where_one_job_learns_something_all_others_keep_what_they_have(seed: int) -> None:
    instance = many_jobs(seed)
    program = instance.program()
    before = program.solve(instance.ids, GAP / 10)
    value = instance.value.copy()
    value[7] *= 1.01
    instance = replace(instance, value=value)
    instance.put(program, np.array([7]))
    found = program.solve(instance.ids, GAP)
    assert was_mended(found)
    assert found.proven
    assert (found.choice != before.choice).sum() <= 3
    assert_right(instance, found)


def history(seed: int) -> Iterator[tuple[Instance, ChoiceSolution]]:
    """Eight rounds, in each of which at most five jobs are others and a type has a GPU more or less."""
    rng = np.random.default_rng(seed)
    instance = many_jobs(seed)
    program = instance.program()
    program.solve(instance.ids, GAP)
    for _ in range(8):
        some = rng.choice(ROWS, rng.integers(0, 6), replace=False)
        value, scale, stay = instance.value.copy(), instance.scale.copy(), instance.stay_column.copy()
        value[some] = value[rng.permutation(some)] * rng.uniform(0.8, 1.25, (len(some), 1))
        scale[some] = rng.uniform(0.9, 1.1, len(some))
        stay[some] = rng.integers(-1, value.shape[1], len(some))
        capacity = np.maximum(instance.capacity + rng.integers(-1, 2, TYPES) * (rng.random() < 0.5), 0.0)
        instance = replace(instance, value=value, scale=scale, stay_column=stay, capacity=capacity)
        program.remove([f"row {i}" for i in some[::2]])
        program.set_capacity(capacity)
        instance.put(program, some)
        yield instance, program.solve(instance.ids, GAP)


@given(seeds)
@fixed
def test_a_program_that_changes_a_little_many_times_is_never_wrong(seed: int) -> None:
    for instance, found in history(seed):
        assert_right(instance, found)


def test_many_programs_that_change_a_little_are_mended() -> None:
    mended = [was_mended(found) for seed in range(10) for _, found in history(seed)]
    assert sum(mended) > len(mended) / 3


def test_gpus_that_come_are_given_to_jobs_that_did_not_change() -> None:
    instance = many_jobs(0)
    program = instance.program()
    before = program.solve(instance.ids, GAP)
    instance = replace(instance, capacity=instance.capacity + 2)
    program.set_capacity(instance.capacity)
    found = program.solve(instance.ids, GAP)
    assert was_mended(found)
    assert found.objective > before.objective
    left = instance.capacity - instance.usage[:, found.choice[found.choice >= 0]].sum(axis=1)
    assert left.sum() <= 1
    assert_right(instance, found)


def test_what_jobs_had_is_taken_where_gpus_go() -> None:
    instance = many_jobs(1)
    program = instance.program()
    program.solve(instance.ids, GAP)
    instance = replace(instance, capacity=instance.capacity - np.array([40.0, 0.0, 0.0]))
    program.set_capacity(instance.capacity)
    assert_right(instance, program.solve(instance.ids, GAP))


def test_without_time_it_is_not_searched_for() -> None:
    """The plan is whole and its bound holds all the same."""
    instance = many_jobs(2)
    program = instance.program()
    program.solve(instance.ids, GAP)
    value = instance.value.copy()
    value[:3] = value[3:6]
    instance = replace(instance, value=value)
    instance.put(program, np.arange(3))
    assert_right(instance, program.solve(instance.ids, GAP, time_limit_s=0.0))
