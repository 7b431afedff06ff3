"""Limits may depend on the row: teams' quotas, and CPUs and memory that each job takes per GPU."""

from dataclasses import replace

import numpy as np
import pytest
from coadapt.optimizer.allocation import ChoiceProblem, ChoiceProgram
from coadapt.optimizer.copter.baselines import milp
from hypothesis import given, settings
from hypothesis import strategies as st

TYPES, SIZES = 2, np.array([1.0, 2.0, 4.0, 8.0])
GPUS, GROUP = np.tile(SIZES, TYPES), np.repeat(np.arange(TYPES), len(SIZES))


def with_quotas(teams: int) -> np.ndarray:
    """Return (teams, limits, columns): GPUs of each type, then each team's quota, which only its rows use."""
    usage = np.zeros((teams, TYPES + teams, len(GPUS)))
    usage[:, :TYPES] = np.where(np.arange(TYPES)[:, None] == GROUP, GPUS, 0.0)
    for team in range(teams):
        usage[team, TYPES + team] = GPUS
    return usage


def drawn(seed: int, rows: int, teams: int) -> ChoiceProblem:
    rng = np.random.default_rng(seed)
    speed = rng.uniform(0.5, 2.0, (rows, TYPES))[:, GROUP]
    value = speed * GPUS ** rng.uniform(0.4, 0.95, (rows, 1))
    quotas = rng.integers(1, 2 + 2 * rows, teams)
    capacity = np.concatenate([rng.integers(2, 3 + 2 * rows, TYPES), quotas]).astype(float)
    kind = rng.integers(0, teams, rows)
    return ChoiceProblem(value, np.ones(value.shape, bool), with_quotas(teams), capacity, None, kind)


def program_of(problem: ChoiceProblem) -> tuple[ChoiceProgram, list[str]]:
    program = ChoiceProgram(problem.usage, problem.capacity, GROUP, GPUS)
    ids = [f"job {i}" for i in range(len(problem.value))]
    program.upsert(ids, problem.value, problem.allowed, problem.required, problem.kinds)
    return program, ids


def used(problem: ChoiceProblem, choice: np.ndarray) -> np.ndarray:
    row = np.flatnonzero(choice >= 0)
    return problem.usage_of(row, choice[row]).sum(axis=1)


@given(st.integers(0, 10**6), st.integers(1, 14), st.integers(1, 4))
@settings(max_examples=60)
def test_a_plan_keeps_every_teams_quota_and_is_the_best_that_does(seed: int, rows: int, teams: int) -> None:
    problem = drawn(seed, rows, teams)
    program, ids = program_of(problem)
    # The first solve may have to wait for its kernels.
    found, best = program.solve(ids, gap=1e-6, time_limit_s=1e3), milp.solve(problem, gap=0.0)
    assert (used(problem, found.choice) <= problem.capacity + 1e-9).all()
    assert (used(problem, best.choice) <= problem.capacity + 1e-9).all()
    assert found.proven
    assert found.objective == pytest.approx(best.objective, rel=3e-6)


def test_a_team_at_its_quota_leaves_the_rest_to_others() -> None:
    usage = with_quotas(2)
    program = ChoiceProgram(usage, np.array([16.0, 0.0, 4.0, 99.0]), GROUP, GPUS)
    value = np.tile(np.sqrt(GPUS), (4, 1)) * np.array([[9.0], [9.0], [1.0], [1.0]])
    program.upsert(["a", "b", "c", "d"], value, np.ones((4, 8), bool), None, np.array([0, 0, 1, 1]))
    found = program.solve(["a", "b", "c", "d"], gap=0.0)
    gpus = np.where(found.choice >= 0, GPUS[found.choice], 0.0)
    assert gpus[:2].sum() == 4.0
    assert gpus[2:].sum() == 12.0
    assert found.prices[2] > 0.0 == found.prices[3]


@pytest.mark.parametrize("seed", range(3))
def test_with_quotas_many_jobs_are_planned_within_the_gap_asked_for(seed: int) -> None:
    problem = drawn(seed, 400, 5)
    problem = replace(problem, capacity=np.concatenate([[300.0, 300.0], np.full(5, 90.0)]))
    program, ids = program_of(problem)
    found = program.solve(ids)
    assert found.proven
    assert (used(problem, found.choice) <= problem.capacity + 1e-9).all()
    # One team may use more: what changed is solved from where it was.
    problem = replace(problem, capacity=problem.capacity + np.array([0, 0, 30.0, 0, 0, 0, 0]))
    program.set_capacity(problem.capacity)
    more = program.solve(ids)
    assert more.proven
    assert more.bound >= found.objective


def test_jobs_that_take_other_cpus_per_gpu_share_the_cpus_of_a_type() -> None:
    """Two kinds of jobs take 1 and 8 CPUs per GPU, of 64 that there are: the CPUs bind before the GPUs."""
    cpus_per_gpu = np.array([1.0, 8.0])
    usage = np.stack([np.stack([SIZES, cpus * SIZES]) for cpus in cpus_per_gpu])
    program = ChoiceProgram(usage, np.array([32.0, 64.0]), np.zeros(4, int), SIZES)
    ids, kind = [f"job {i}" for i in range(12)], np.arange(12) % 2
    value = np.tile(np.sqrt(SIZES), (12, 1))
    program.upsert(ids, value, np.ones((12, 4), bool), None, kind)
    found = program.solve(ids, gap=0.0)
    gpus = np.where(found.choice >= 0, SIZES[found.choice], 0.0)
    assert gpus.sum() <= 32.0
    assert (gpus * cpus_per_gpu[kind]).sum() <= 64.0
    assert gpus[kind == 0].sum() > gpus[kind == 1].sum()
    best = milp.solve(ChoiceProblem(value, np.ones((12, 4), bool), usage, program.capacity, None, kind), gap=0.0)
    assert found.objective == pytest.approx(best.objective)


def test_a_row_that_joins_another_team_counts_against_its_quota() -> None:
    program = ChoiceProgram(with_quotas(2), np.array([8.0, 8.0, 0.0, 8.0]), GROUP, GPUS)
    allowed = np.ones((1, 8), bool)
    program.upsert(["a"], np.sqrt(GPUS)[None], allowed, None, np.array([0]))
    program.set_incumbents(["a"], np.array([2]), np.array([9.0]))
    assert program.solve(["a"]).choice.tolist() == [-1]
    program.upsert(["a"], np.sqrt(GPUS)[None], allowed, None, np.array([1]))
    assert program.solve(["a"]).choice.tolist() == [2]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (np.array([2]), "kind: must be whole numbers from 0 to 1"),
        (np.array([-1]), "kind: must be whole numbers from 0 to 1"),
        (np.array([0.5]), "kind: must be whole numbers from 0 to 1"),
        (np.array([0, 1]), r"kind: has shape \(2,\), not \(1,\)"),
    ],
)
def test_a_kind_that_does_not_exist_is_refused(kind: np.ndarray, says: str) -> None:
    program = ChoiceProgram(with_quotas(2), np.array([8.0, 8.0, 8.0, 8.0]), GROUP, GPUS)
    with pytest.raises(ValueError, match=says):
        program.upsert(["a"], np.ones((1, 8)), np.ones((1, 8), bool), None, kind)
    assert len(program) == 0


def test_other_kinds_than_there_were_are_refused() -> None:
    program = ChoiceProgram(with_quotas(2), np.full(4, 8.0), GROUP, GPUS)
    with pytest.raises(ValueError, match="usage: has 1 kinds of rows, not 2"):
        program.set_limits(with_quotas(2)[0], np.full(4, 8.0))
