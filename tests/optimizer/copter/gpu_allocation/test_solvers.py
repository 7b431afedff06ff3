"""One program, many solvers: each brings a plan that fits, and those that claim the same agree."""

import json
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from coadapt.optimizer.allocation import ChoiceProblem, ChoiceProgram, ChoiceSolution
from coadapt.optimizer.allocation.listing import Entries
from coadapt.optimizer.copter.baselines import milp
from coadapt.optimizer.copter.gpu_allocation.engine import Continual
from coadapt.optimizer.copter.gpu_allocation.pop import Pop
from coadapt.optimizer.copter.gpu_allocation.program import linear_program
from coadapt.optimizer.copter.gpu_allocation.shim import largest_weights
from coadapt.optimizer.copter.gpu_allocation.solvers import compared_solvers
from coadapt.policies.choosing.solvers import COMPARED, SOLVERS, allocation_solver
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.choice_instances import FAMILIES, Instance, draw
from tests.support.emulated_cluster import EmulatedCluster

EXACT = ("structured", "milp", "ilp")
VERTEX = ("highs", "highs-ipm", "highs-hot")
FIRST_ORDER = ("highs-pdlp", "highs-pdlp-hot", "continual")
SPLIT = ("pop", "pop-structured")
BY_RAY = ("pop-ray",)  # `pop`, side by side: looked at once, as it starts a Ray
IN_PROCESS = tuple(name for name in SOLVERS if name not in BY_RAY)
families = st.sampled_from(list(FAMILIES))
seeds = st.integers(0, 10**6)


def solved(name: str, instance: Instance, gap: float = 1e-6) -> ChoiceSolution:
    return allocation_solver(name).solve(instance.program(), instance.ids, gap, 10.0)


def assert_fits(instance: Instance, solution: ChoiceSolution) -> None:
    problem = instance.problem()
    row = np.flatnonzero(solution.choice >= 0)
    column = solution.choice[row]
    assert problem.allowed[row, column].all()
    assert (problem.usage[:, column].sum(axis=1) <= problem.capacity + 1e-9).all()
    assert solution.objective == pytest.approx(problem.value[row, column].sum(), abs=1e-9)
    assert solution.bound >= solution.objective
    assert problem.required is not None
    assert set(np.flatnonzero(problem.required & (solution.choice < 0))) == set(solution.unmet)


def test_all_solvers_there_are_are_looked_at_here() -> None:
    assert set(SOLVERS) == {*EXACT, *VERTEX, *FIRST_ORDER, *SPLIT, *BY_RAY}
    assert compared_solvers() == COMPARED


@pytest.mark.parametrize("name", IN_PROCESS)
@given(family=families, seed=seeds)
@settings(max_examples=25)
def test_every_solver_finds_a_plan_that_fits(name: str, family: str, seed: int) -> None:
    instance = draw(family, seed)
    assert_fits(instance, solved(name, instance))


@given(families, seeds)
@settings(max_examples=40)
def test_exact_solvers_agree_and_no_bound_is_below_them(family: str, seed: int) -> None:
    instance = draw(family, seed)
    best = milp.solve(instance.problem(), gap=0.0)
    slack = 2e-6 * max(1.0, abs(best.objective))
    for name in EXACT:
        found = solved(name, instance)
        assert found.objective == pytest.approx(best.objective, abs=slack), name
        assert found.bound >= best.objective - slack, name
        assert found.unmet == best.unmet, name
    for name in (*VERTEX, *SPLIT):
        found = solved(name, instance)
        # A plan that leaves out what was required may gain more by that: as much as where it was not required.
        required = instance.required.copy()
        required[list(found.unmet)] = False
        most = milp.solve(replace(instance.problem(), required=required), gap=0.0).objective
        assert found.objective <= most + slack, name
        assert found.bound >= best.objective - slack, name


@given(families, seeds)
@settings(max_examples=40)
def test_bounds_of_the_relaxation_agree(family: str, seed: int) -> None:
    instance = draw(family, seed)
    relaxed = {name: solved(name, instance).bound for name in VERTEX}
    slack = 1e-6 * max(1.0, abs(relaxed["highs"]))
    for name in VERTEX:
        assert relaxed[name] == pytest.approx(relaxed["highs"], abs=slack), name
    assert solved("structured", instance).bound <= relaxed["highs"] + slack


@pytest.mark.parametrize("name", IN_PROCESS)
def test_a_solver_goes_on_with_a_program_that_changes(name: str) -> None:
    """What a hot one keeps is that of the last round, and never shows."""
    instance = draw("sia's, with moves", 7)
    solver, program, active = allocation_solver(name), instance.program(), list(range(len(instance.value)))
    rng = np.random.default_rng(0)
    for _ in range(6):
        gone = int(rng.choice(active))
        active.remove(gone)
        program.remove([f"row {gone}"])
        capacity = rng.integers(1, 12, len(instance.capacity)).astype(float)
        program.set_capacity(capacity)
        now = replace(
            instance,
            capacity=capacity,
            **{
                field: getattr(instance, field)[active]
                for field in ("value", "allowed", "required", "offset", "scale", "stay_column", "stay_gain")
            },
        )
        found = solver.solve(program, [f"row {i}" for i in active], 1e-6, 10.0)
        assert_fits(now, found)
        if name in EXACT + VERTEX:
            anew = allocation_solver(name).solve(program, [f"row {i}" for i in active], 1e-6, 10.0)
            assert found.bound == pytest.approx(anew.bound, rel=1e-5)


@pytest.mark.parametrize("name", IN_PROCESS)
def test_a_solver_can_be_pickled_between_rounds(name: str) -> None:
    instance = draw("goodput of powers of two", 5)
    solver, program = allocation_solver(name), instance.program()
    first = solver.solve(program, instance.ids, 1e-6, 10.0)
    again = pickle.loads(pickle.dumps(solver)).solve(program, instance.ids, 1e-6, 10.0)
    assert_fits(instance, again)
    if name not in SPLIT:
        assert again.bound == pytest.approx(first.bound, rel=1e-3)


@pytest.mark.parametrize("name", IN_PROCESS)
def test_required_jobs_that_do_not_fit_together_are_named_and_the_others_have_their_plan(name: str) -> None:
    program = ChoiceProgram(np.array([[4.0]]), np.array([8.0]))
    ids = ["a", "b", "c"]
    program.upsert(ids, np.array([[1.0], [1.0], [5.0]]), np.ones((3, 1), bool), np.ones(3, bool))
    solver = allocation_solver(name)
    if isinstance(solver, Pop):
        solver = replace(solver, k=1)
    solution = solver.solve(program, ids, 1e-6, 10.0)
    assert solution.choice.tolist() == [0, 0, -1]
    assert solution.unmet == (2,)


def test_the_continual_engine_follows_a_program_through_changes_of_all_kinds() -> None:
    """After each, its bound is that of the relaxation solved from nothing, to its tolerance."""
    instance = draw("sia's, with moves", 11)
    program, rng = instance.program(), np.random.default_rng(1)
    columns, spare = instance.value.shape[1], f"row {len(instance.value)}"
    engine, exact, order = Continual(tolerance=1e-6), allocation_solver("highs"), list(instance.ids)
    for change in (
        "nothing",
        "weigh",
        "stay",
        "put",
        "come",
        "go",
        "capacity",
        "weigh",
        "required",
        "new program",
    ):
        some = sorted(rng.choice(order, 3, replace=False).tolist())
        value, allowed = rng.random((3, columns)), rng.random((3, columns)) < 0.7
        match change:
            case "weigh":
                program.set_weights(order, rng.random(len(order)), 0.5 + rng.random(len(order)))
            case "stay":
                program.set_incumbents(some, rng.integers(-1, columns, 3), rng.random(3))
            case "put":
                program.upsert(some, value, allowed)
            case "come":
                program.upsert([spare], value[:1], allowed[:1])
                order.append(spare)
            case "go":
                program.remove([order.pop(0)])
            case "capacity":
                program.set_capacity(instance.capacity + 2)
            case "required":
                program.upsert(some[:1], value[:1], np.ones((1, columns), bool), np.ones(1, bool))
            case "new program":
                program, order = replace(instance, capacity=instance.capacity + 1).program(), list(instance.ids)
        bound = engine.solve(program, order, 1e-6, 10.0).bound
        assert bound == pytest.approx(exact.solve(program, order, 1e-6, 10.0).bound, rel=2e-5), change


def test_where_gains_alone_change_no_request_of_the_engine_is_replaced() -> None:
    instance = draw("sia's, with moves", 5)
    program, solver = instance.program(), Continual()
    solver.solve(program, instance.ids, 1e-4, 10.0)
    before = solver.engine.requests
    program.set_weights(instance.ids, np.ones(len(instance.ids)), np.full(len(instance.ids), 2.0))
    solver.solve(program, instance.ids, 1e-4, 10.0)
    assert solver.engine.requests == before
    program.upsert(instance.ids[:1], instance.value[:1], np.zeros_like(instance.allowed[:1]))
    program.set_incumbents(instance.ids[:1], np.array([-1]), np.zeros(1))
    solver.solve(program, instance.ids, 1e-4, 10.0)
    assert len(set(before) - set(solver.engine.requests)) == 1


# The shim of COpter, section 4.4.1

USAGE = np.array([[1.0, 2.0, 4.0, 0.0], [0.0, 0.0, 0.0, 2.0]])


def picks(weights: dict[tuple[int, int], float], capacity: list[float], rows: int = 3) -> list[int]:
    """Return the column of each row, from {(row, column): weight}."""
    row, column = np.array(list(weights)).T
    entries = Entries(row, column, np.zeros(len(row)))
    weight = np.array(list(weights.values()))
    return largest_weights(entries, weight, rows, USAGE, np.array(capacity)).tolist()


def test_a_job_takes_the_configuration_of_its_largest_weight() -> None:
    assert picks({(0, 0): 0.4, (0, 2): 0.6, (1, 1): 1.0}, [6.0, 0.0]) == [2, 1, -1]


def test_where_that_does_not_fit_it_takes_the_next() -> None:
    assert picks({(0, 0): 0.4, (0, 2): 0.6, (1, 2): 0.9}, [5.0, 0.0]) == [0, 2, -1]


def test_larger_weights_choose_first_and_equal_ones_in_the_order_of_jobs() -> None:
    assert picks({(0, 1): 0.5, (1, 1): 0.7, (2, 1): 0.7}, [2.0, 0.0]) == [-1, 1, -1]


def test_what_the_relaxation_gave_no_weight_is_not_picked_even_where_there_is_room() -> None:
    assert picks({(0, 0): 0.0, (1, 1): 1e-9, (2, 3): 1.0}, [8.0, 8.0]) == [-1, -1, 3]


def test_a_whole_solution_of_the_relaxation_is_the_plan() -> None:
    weights = {(0, 0): 1.0, (0, 2): 0.0, (1, 1): 1.0, (2, 3): 1.0}
    assert picks(weights, [3.0, 2.0]) == [0, 1, 3]


# POP


@given(st.integers(1, 40), st.integers(1, 16), seeds)
@settings(max_examples=20)
def test_pop_covers_every_job_once_whatever_the_number_of_parts(jobs: int, k: int, seed: int) -> None:
    """With a GPU in every part for each job, each gets one, and none gets two."""
    program = ChoiceProgram(np.array([[1.0]]), np.array([float(k * jobs)]))
    ids = [f"row {i}" for i in range(jobs)]
    program.upsert(ids, np.ones((jobs, 1)), np.ones((jobs, 1), bool))
    solution = Pop(k=k, seed=seed).solve(program, ids, 1e-6, 10.0)
    assert solution.choice.tolist() == [0] * jobs
    assert solution.objective == jobs


@given(st.integers(1, 9), st.integers(0, 20), seeds)
@settings(max_examples=20)
def test_pop_gives_every_unit_to_some_part(k: int, capacity: int, seed: int) -> None:
    """Of more jobs than GPUs in every part as many run as there are GPUs."""
    jobs = k * (capacity + 1)
    program = ChoiceProgram(np.array([[1.0]]), np.array([float(capacity)]))
    ids = [f"row {i}" for i in range(jobs)]
    program.upsert(ids, np.ones((jobs, 1)), np.ones((jobs, 1), bool))
    assert Pop(k=k, seed=seed).solve(program, ids, 1e-6, 10.0).objective == capacity


@given(seeds)
@settings(max_examples=10)
def test_pop_leaves_jobs_in_their_part_from_round_to_round(seed: int) -> None:
    """Twelve jobs in four parts with a GPU each: who waits goes on waiting, also when one leaves."""
    program = ChoiceProgram(np.array([[1.0]]), np.array([4.0]))
    ids = [f"row {i}" for i in range(12)]
    program.upsert(ids, np.arange(1.0, 13.0)[:, None], np.ones((12, 1), bool))
    pop = Pop(k=4, seed=seed)
    first = pop.solve(program, ids, 1e-6, 10.0).choice
    assert pop.solve(program, ids, 1e-6, 10.0).choice.tolist() == first.tolist()
    gone = int(np.flatnonzero(first < 0)[0])
    program.remove([ids.pop(gone)])
    assert pop.solve(program, ids, 1e-6, 10.0).choice.tolist() == np.delete(first, gone).tolist()


def test_pop_moves_a_job_that_its_part_is_too_small_for() -> None:
    """Six GPUs in four parts are 2, 2, 1 and 1: of four jobs that need two each, all are served, two at a time."""
    program = ChoiceProgram(np.array([[2.0]]), np.array([6.0]))
    ids = [f"row {i}" for i in range(4)]
    program.upsert(ids, np.ones((4, 1)), np.ones((4, 1), bool))
    pop, served = Pop(k=4, seed=0), []
    while ids and len(served) < 4:
        choice = pop.solve(program, ids, 1e-6, 10.0).choice
        done = [id for id, pick in zip(ids, choice, strict=True) if pick >= 0]
        assert done, f"nobody of {ids} is served by an idle cluster"
        program.remove(done)
        served += done
        ids = [id for id in ids if id not in done]
    assert len(served) == 4


@given(families, seeds)
@settings(max_examples=30)
def test_pop_serves_and_gains_the_same_however_its_parts_are_solved(family: str, seed: int) -> None:
    """At a gap of 1e-6, and three parts of the same seed."""
    instance = draw(family, seed)
    found = [
        Pop(k=3, structured=structured, seed=seed).solve(instance.program(), instance.ids, 1e-6, 10.0)
        for structured in (False, True)
    ]
    assert found[0].unmet == found[1].unmet
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-5, abs=1e-5)


BY_RAY_ALONE = """
import json, time
import ray
from tests.support.choice_instances import draw
from coadapt.policies.choosing.solvers import allocation_solver

instance, by_ray, rounds = draw("sia's, with moves", 7), allocation_solver("pop-ray"), []
program = instance.program()
assert not ray.is_initialized()
for _ in range(3):
    began = time.perf_counter()
    found = by_ray.solve(program, instance.ids, 1e-6, 10.0)
    rounds.append([found.choice.tolist(), found.seconds, time.perf_counter() - began])
print(json.dumps({"rounds": rounds, "cpus": ray.cluster_resources()["CPU"]}))
"""


@pytest.mark.live
def test_pop_makes_the_same_plans_by_ray_and_starts_one_where_none_runs() -> None:
    """Round after round, with the time that the clock said."""
    # In a process of its own: it starts a Ray, and other tests are connected to theirs.
    ended = subprocess.run([sys.executable, "-c", BY_RAY_ALONE], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert 0 < told["cpus"] <= 2, "cores is two, whatever the machine has"
    instance, in_turn = draw("sia's, with moves", 7), allocation_solver("pop")
    program = instance.program()
    for choice, seconds, clock_s in told["rounds"]:
        assert 0 < seconds <= clock_s
        assert choice == in_turn.solve(program, instance.ids, 1e-6, 10.0).choice.tolist()


@pytest.mark.live
def test_pop_uses_the_ray_that_runs(emulated_cluster: EmulatedCluster) -> None:
    import ray

    instance = draw("sia's, with moves", 7)
    program, nodes = instance.program(), {node["NodeID"] for node in ray.nodes()}
    by_ray, in_turn = (
        allocation_solver(name).solve(program, instance.ids, 1e-6, 10.0) for name in ("pop-ray", "pop")
    )
    assert {node["NodeID"] for node in ray.nodes()} == nodes
    assert_fits(instance, by_ray)
    assert by_ray.choice.tolist() == in_turn.choice.tolist()


@pytest.mark.parametrize("structured", [False, True])
def test_pop_in_one_part_is_the_whole_program(structured: bool) -> None:
    instance = draw("blocks and whole nodes", 3)
    whole = Pop(k=1, structured=structured).solve(instance.program(), instance.ids, 1e-6, 10.0)
    assert whole.objective == pytest.approx(solved("ilp", instance).objective)


def test_the_linear_program_is_what_is_not_gained_of_every_entry() -> None:
    entries = Entries(np.array([0, 0, 1]), np.array([0, 2, 3]), np.array([1.0, 3.0, 2.0]))
    program = linear_program(entries, 2, USAGE, np.array([5.0, 6.0]), np.array([True, False]), integer=True)
    assert program.cost.tolist() == [-1, -3, -2]
    assert program.matrix.toarray().tolist() == [[1, 1, 0], [0, 0, 1], [1, 4, 0], [0, 0, 2]]
    assert program.row_lower.tolist() == [1, -np.inf, -np.inf, -np.inf]
    assert program.row_upper.tolist() == [1, 1, 5, 6]
    assert program.upper.tolist() == [1, 1, 1]
    assert program.integer is not None
    assert program.integer.all()


def test_a_solver_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="solver: 'gurobi' is unknown; accepted: structured, milp, ilp"):
        allocation_solver("gurobi")


@pytest.mark.parametrize("name", IN_PROCESS)
def test_every_solver_knows_that_kinds_of_jobs_take_other_amounts(name: str) -> None:
    """Jobs of two kinds take 1 and 8 CPUs per GPU, of 64 that there are, so that CPUs bind before GPUs."""
    sizes, cpus = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 8.0])
    usage = np.stack([np.stack([sizes, each * sizes]) for each in cpus])
    program = ChoiceProgram(usage, np.array([32.0, 64.0]), np.zeros(4, int), sizes)
    ids, kind, allowed = [f"job {i}" for i in range(12)], np.arange(12) % 2, np.ones((12, 4), bool)
    value = np.tile(np.sqrt(sizes), (12, 1)) + 0.01 * np.arange(12)[:, None]
    program.upsert(ids, value, allowed, None, kind)
    found = allocation_solver(name).solve(program, ids, 1e-6, 10.0)
    gpus = np.where(found.choice >= 0, sizes[found.choice], 0.0)
    assert gpus.sum() <= 32.0 + 1e-9
    assert (gpus * cpus[kind]).sum() <= 64.0 + 1e-9
    row = np.flatnonzero(found.choice >= 0)
    assert found.objective == pytest.approx(value[row, found.choice[row]].sum())
    if name in EXACT:
        best = milp.solve(ChoiceProblem(value, allowed, usage, program.capacity, None, kind), gap=0.0)
        assert found.objective == pytest.approx(best.objective, rel=1e-5)
