"""Solutions are those of an exact solver, proven, cold or warm; no optimum is claimed where there is none."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from coadapt.optimizer.copter.engine import ContinualProgram, Row, Solution, solver
from coadapt.optimizer.linear_program import LinearProgram, Status
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

INF = float("inf")
KINDS = {0: Status.OPTIMAL, 2: Status.INFEASIBLE, 3: Status.UNBOUNDED}


def exact(lp: LinearProgram) -> tuple[Status, float]:
    """Return status and objective by HiGHS's simplex."""
    has = [np.isfinite(lp.row_upper), np.isfinite(lp.row_lower)]
    matrix = lp.matrix.toarray()
    found = linprog(
        lp.cost,
        np.vstack([matrix[has[0]], -matrix[has[1]]]),
        np.concatenate([lp.row_upper[has[0]], -lp.row_lower[has[1]]]),
        bounds=np.column_stack([lp.lower, lp.upper]),
        method="highs-ds",
    )
    status = KINDS[found.status]
    if status is Status.INFEASIBLE and lp.cost.any() and exact(replace(lp, cost=0 * lp.cost))[0] is Status.OPTIMAL:
        status = Status.UNBOUNDED  # HiGHS says infeasible of some programs whose dual is
    return status, np.nan if found.fun is None else float(found.fun)


def random_lp(seed: int) -> LinearProgram:
    """Draw small, sparse programs of whole numbers and any sides: often degenerate, some without an optimum."""
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 9)), int(rng.integers(1, 12))
    matrix = rng.integers(-4, 5, (rows, columns)) * (rng.random((rows, columns)) < 0.6)
    middle = matrix @ rng.integers(0, 4, columns) + rng.integers(-1, 2, rows) * (rng.random(rows) < 0.2)
    low = np.where(rng.random(rows) < 0.5, middle - rng.integers(0, 4, rows), -INF)
    high = np.where(rng.random(rows) < 0.6, middle + rng.integers(0, 4, rows), INF)
    equal = rng.random(rows) < 0.3
    low[equal] = high[equal] = middle[equal]
    lower = np.where(rng.random(columns) < 0.85, 0.0, -INF)
    upper = np.where(rng.random(columns) < 0.5, rng.integers(1, 6, columns), INF)
    cost = rng.integers(-5, 9, columns).astype(float)
    return LinearProgram(cost, sparse.csr_array(matrix.astype(float)), low, high, lower, upper)


@settings(max_examples=250)
@given(st.integers(0, 10**6))
def test_status_and_objective_are_those_of_an_exact_solver(seed: int) -> None:
    lp = random_lp(seed)
    status, objective = exact(lp)
    solution = ContinualProgram.of(lp).solve(tolerance=1e-7, time_limit_s=120.0)  # the first one compiles
    assert solution.status == status
    if status is Status.OPTIMAL:
        assert solution.objective == pytest.approx(objective, rel=1e-5, abs=1e-5)
        assert solution.bound <= objective + 1e-7 * (1 + abs(objective))
        x = solution.values
        assert ((lp.lower <= x) & (x <= lp.upper)).all()
        activity = lp.matrix @ x
        off = activity - np.clip(activity, lp.row_lower, lp.row_upper)
        assert np.abs(off).max() <= 1e-5 * (1 + np.abs(middle_sides(lp)).max(initial=0.0))


@pytest.mark.parametrize("size", [1.0, 1e4, 1e8])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_neither_a_large_side_nor_a_large_cost_of_one_request_breaks_another(size: float, seed: int) -> None:
    lp = random_lp(seed)
    status, objective = exact(lp)
    program = ContinualProgram.of(lp)
    program.add_request("other", [size], rows=[Row(1.0, upper=size)])
    found = program.solve(tolerance=1e-6)
    assert found.status is status
    if status is Status.OPTIMAL:
        assert found.objective == pytest.approx(objective, rel=1e-5, abs=1e-5)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_units_of_rows_and_variables_change_neither_status_nor_objective(seed: int) -> None:
    lp, rng = random_lp(seed), np.random.default_rng(seed)
    status, objective = exact(lp)
    of_rows, of_columns = (10.0 ** rng.uniform(-3, 3, count) for count in lp.matrix.shape)
    matrix = sparse.csr_array(lp.matrix.toarray() * of_rows[:, None] * of_columns)
    sides, bounds = (
        (lp.row_lower * of_rows, lp.row_upper * of_rows),
        (lp.lower / of_columns, lp.upper / of_columns),
    )
    found = ContinualProgram.of(LinearProgram(lp.cost * of_columns, matrix, *sides, *bounds)).solve(
        1e-6, time_limit_s=20
    )
    assert found.status is status
    if status is Status.OPTIMAL:
        assert found.objective == pytest.approx(objective, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6])
@pytest.mark.parametrize("size", [1e2, 1e4, 1e7])
def test_each_row_and_each_reduced_cost_is_held_beside_its_own_size(size: float, tolerance: float) -> None:
    """Of all sides together one of 1 is a small part, of all costs one of -1."""
    program = ContinualProgram()
    program.add_request("most", [-1.0], rows=[Row(1.0, upper=1.0)])
    program.add_request("least", [1.0], rows=[Row(1.0, lower=1.0)])
    program.add_request("side", [1.0], rows=[Row(1.0, upper=size)])
    program.add_request("cost", [size], rows=[Row(1.0, upper=1.0)])
    found = program.solve(tolerance=tolerance)
    assert found.status is Status.OPTIMAL
    assert found.x("most") == pytest.approx([1.0], abs=3 * tolerance)
    assert found.x("least") == pytest.approx([1.0], abs=3 * tolerance)
    assert found.primal_residual <= tolerance
    assert found.dual_residual <= tolerance


@pytest.mark.parametrize("seed", [223, 2272])
def test_a_direction_without_end_is_found_beside_large_sides_and_costs_that_have_nothing_to_do_with_it(
    seed: int,
) -> None:
    """Of 223 steps are so long that inexact ones would do for them, of 2272 what is left of others is dust."""
    program = ContinualProgram.of(random_lp(seed))
    program.add_request("other", [1e7], rows=[Row(1.0, upper=1e7)])
    assert program.solve(tolerance=1e-6, time_limit_s=20.0).status is Status.UNBOUNDED


def middle_sides(lp: LinearProgram) -> np.ndarray:
    sides = np.concatenate([lp.row_lower, lp.row_upper])
    return sides[np.isfinite(sides)]


def cluster(jobs: int, seed: int = 0, maximise: bool = True) -> ContinualProgram:
    rng = np.random.default_rng(seed)
    program = ContinualProgram(maximise)
    for gpu_type in ("a100", "h100", "t4"):
        program.set_capacity(gpu_type, float(jobs))
    for job in range(jobs):
        add_job(program, job, rng, maximise)
    return program


def add_job(program: ContinualProgram, job: int, rng: np.random.Generator, maximise: bool = True) -> None:
    counts = np.array([1, 2, 4, 8, 16, 24])
    speed = rng.uniform(0.5, 1.5, 3) * np.array([2.0, 4.0, 1.0])
    value = (speed[:, None] * counts ** rng.uniform(0.4, 0.9)).ravel() * (1 if maximise else -1)
    uses = {t: (np.arange(6) + 6 * i, counts) for i, t in enumerate(("a100", "h100", "t4"))}
    program.add_request(job, value, uses, [Row(1.0, upper=1.0)])


def test_a_warm_solve_agrees_with_an_exact_one_after_every_round_of_changes() -> None:
    program, rng = cluster(60), np.random.default_rng(7)
    for round_ in range(6):
        solution = program.solve(tolerance=1e-6)
        status, objective = exact(program.linear_program())
        assert solution.status == status
        assert solution.objective == pytest.approx(-objective, rel=1e-5)
        assert solution.bound >= -objective * (1 - 1e-9)
        assert solution.gap <= 2e-6
        for id in program.requests[:3]:
            program.remove_request(id)
        for i in range(3):
            add_job(program, 1000 + 3 * round_ + i, rng)
        program.set_capacity("t4", float(rng.integers(0, 80)))


def test_a_warm_solve_takes_less_than_half_the_iterations_of_a_cold_one() -> None:
    program = cluster(300)
    program.solve(tolerance=1e-5)
    program.change_request(5, cost=np.linspace(1.0, 9.0, 18))
    warm = program.solve(tolerance=1e-5)
    cold = program.solve(tolerance=1e-5, warm=False)
    assert warm.objective == pytest.approx(cold.objective, rel=3e-5)
    assert 2 * warm.iterations < cold.iterations


def test_shrinking_finds_what_working_on_all_columns_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cluster(200).solve(tolerance=1e-6)
    monkeypatch.setattr("coadapt.optimizer.copter.engine.solver.SMALL", 100)
    program = cluster(200)
    shrunk = program.solve(tolerance=1e-6)
    assert shrunk.objective == pytest.approx(whole.objective, rel=1e-5)
    assert shrunk.gap <= 2e-6
    program.set_capacity("h100", 20.0)
    again = program.solve(tolerance=1e-6)
    assert again.objective == pytest.approx(-exact(program.linear_program())[1], rel=1e-5)


def many_columns(seed: int) -> ContinualProgram:
    """Draw four requests of 150 to 400 variables. Some of these have no bound but what capacities imply."""
    rng = np.random.default_rng(seed)
    program = ContinualProgram(maximise=True)
    resources = ["a", "b", "c", "d", "e"]
    for resource in resources:
        program.set_capacity(resource, float(rng.integers(0, 200)))
    for i in range(4):
        count = int(rng.integers(150, 400))
        cost = rng.normal(size=count) if i % 2 else rng.integers(-3, 4, count).astype(float)
        uses = {name: rng.integers(0, 5, count).astype(float) for name in resources if rng.random() < 0.8}
        rows = [Row(1.0, 0.0, float(rng.integers(0, 9)))] if rng.random() < 0.6 else []
        upper = INF if rng.random() < 0.4 else float(rng.integers(1, 4))
        program.add_request(i, cost, uses, rows, upper=upper)
    return program


@pytest.mark.parametrize("seed", [326, 393, 415, 854, 1089, 1094, 1130, 1218])
def test_a_bound_is_as_near_as_promised_where_columns_are_left_out(seed: int) -> None:
    found = many_columns(seed).solve(tolerance=1e-3)
    assert found.status is Status.OPTIMAL
    assert abs(found.bound - found.objective) <= 1e-3 * (1 + max(abs(found.bound), abs(found.objective)))


def test_where_no_column_was_of_use_those_that_tie_are_worked_on() -> None:
    program = ContinualProgram()
    program.add_request("idle", np.zeros(600))
    program.solve()
    program.add_request("one", [-1.0], rows=[Row(1.0, upper=2.0)])
    assert program.solve().objective == pytest.approx(-2.0)

    program = ContinualProgram()
    program.set_capacity("gpus", 1e3)
    program.add_request("alike", np.ones(600), {"gpus": 1.0}, upper=1.0)
    assert program.solve().objective == 0.0
    program.set_capacity("gpus", 1e3, lower=10.0)
    assert program.solve().objective == pytest.approx(10.0, rel=1e-4)


def test_shrinking_takes_in_what_feasibility_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coadapt.optimizer.copter.engine.solver.SMALL", 100)
    program = cluster(300)
    program.solve()
    program.set_capacity("t4", 300.0, lower=290.0)
    program.set_capacity("a100", 300.0, lower=280.0)
    for job in range(0, 300, 2):
        program.change_request(job, cost=np.concatenate([np.full(6, -3.0), np.zeros(6), np.full(6, -5.0)]))
    solution = program.solve(tolerance=1e-6)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(-exact(program.linear_program())[1], rel=1e-5)
    program.set_capacity("t4", 1e5, lower=24.0 * 300 + 1)
    assert program.solve().status is Status.INFEASIBLE


def test_prices_say_what_one_more_unit_is_worth() -> None:
    program = cluster(40)
    before = program.solve(tolerance=1e-8)
    program.set_capacity("h100", 40.0 + 1e-3)
    after = program.solve(tolerance=1e-8)
    assert (after.objective - before.objective) / 1e-3 == pytest.approx(before.price("h100"), rel=1e-2)
    assert before.price("h100") > 0
    assert (before.row_duals(0) >= 0).all()


def test_minimising_is_maximising_the_opposite() -> None:
    most, least = cluster(30).solve(1e-7), cluster(30, maximise=False).solve(1e-7)
    assert least.objective == pytest.approx(-most.objective, rel=1e-6)
    assert least.price("h100") == pytest.approx(-most.price("h100"), rel=1e-4)
    assert least.bound <= least.objective + 1e-6 * abs(least.objective)


def test_the_same_changes_give_the_same_solution() -> None:
    one, other = cluster(50).solve(), cluster(50).solve()
    assert np.array_equal(one.values, other.values)


def test_threads_change_how_long_it_takes_and_not_what_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "PARALLEL", 0)
    monkeypatch.setattr(solver, "SMALL", 100)
    monkeypatch.setattr(solver, "WORKED_ON", 50)
    one, three = cluster(120), cluster(120)
    for _ in range(2):
        alone, together = one.solve(1e-6, threads=1), three.solve(1e-6, threads=3)
        assert together.objective == pytest.approx(alone.objective, rel=2e-6)
        assert together.gap <= 2e-6
        for program in (one, three):
            program.set_capacity("h100", 100.0)


def test_an_empty_program_is_solved_to_zero() -> None:
    solution = ContinualProgram().solve()
    assert (solution.status, solution.objective, solution.bound, len(solution.values)) == (Status.OPTIMAL, 0, 0, 0)
    capacity_alone = ContinualProgram()
    capacity_alone.set_capacity("a100", 4.0)
    assert capacity_alone.solve().status is Status.OPTIMAL


def test_a_resource_without_capacity_is_given_to_no_one() -> None:
    program = cluster(20)
    program.set_capacity("h100", 0.0)
    solution = program.solve(tolerance=1e-7)
    assert solution.status is Status.OPTIMAL
    assert solution.values.reshape(-1, 18)[:, 6:12].sum() <= 1e-4


def test_what_rows_without_variables_ask_for_is_infeasible() -> None:
    program = ContinualProgram()
    program.set_capacity("a100", 5.0, lower=1.0)
    assert program.solve().status is Status.INFEASIBLE
    program.add_request("job", [1.0], {"a100": [1.0]})
    assert program.solve().objective == pytest.approx(1.0, rel=1e-3)


def barely(off: float, small: float) -> ContinualProgram:
    """Make x + small z = 1/2, x = 1/2 + off, both from 0 to 1. It is feasible for -small <= off <= 0."""
    program = ContinualProgram()
    rows = [Row([1.0, small], 0.5, 0.5), Row([1.0, 0.0], 0.5 + off, 0.5 + off)]
    program.add_request("job", [0.0, -1.0], rows=rows, upper=1.0)
    return program


@pytest.mark.parametrize("small", [1e-5, 1e-6, 1e-7])
@pytest.mark.parametrize("off", [1e-8, 1e-9, 1e-10])
def test_infeasible_by_far_less_than_the_tolerance_is_infeasible_where_prices_make_much_of_it(
    off: float, small: float
) -> None:
    assert barely(off, small).solve(1e-6, time_limit_s=20).status is Status.INFEASIBLE


@pytest.mark.parametrize("small", [1e-5, 1e-6, 1e-7])
def test_what_is_barely_feasible_is_solved(small: float) -> None:
    solution = barely(-1e-8, small).solve(1e-6, time_limit_s=20)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(-1e-8 / small, abs=1e-6)


@pytest.mark.parametrize(("off", "status"), [(1e-9, Status.INFEASIBLE), (-1e-9, None)])
def test_a_look_at_feasibility_goes_closer_than_the_tolerance(off: float, status: Status | None) -> None:
    storage = barely(off, 1e-3)._storage
    run = solver._Run(storage, 1e-4, 1, 0.0, INF, True)
    assert run._least_violation(INF, closer=False) is None  # kept to the tolerance
    assert not run.settled
    assert run._least_violation(INF, closer=True) is status


def test_a_program_can_become_infeasible_and_feasible_again() -> None:
    program = cluster(10)
    program.set_capacity("t4", 10.0, lower=9.0)
    assert program.solve().status is Status.OPTIMAL
    program.add_constraint("none", {(job, i): 1.0 for job in range(10) for i in range(12, 18)}, upper=0.1)
    assert program.solve().status is Status.INFEASIBLE
    program.remove_constraint("none")
    solution = program.solve(1e-6)
    assert solution.objective == pytest.approx(-exact(program.linear_program())[1], rel=1e-5)


def test_a_solution_outlives_what_it_was_found_for() -> None:
    program = cluster(5)
    solution = program.solve()
    x = solution.x(3).copy()
    program.remove_request(3)
    program.solve()
    assert np.array_equal(solution.x(3), x)
    assert np.array_equal(solution.values[solution.of(3)], x)
    assert np.array_equal(solution.of_all([4, 3]), np.concatenate([solution.x(4), x]))
    with pytest.raises(ValueError, match="request 9: was not part"):
        solution.of_all([3, 9])
    with pytest.raises(ValueError, match="resource 'tpu'"):
        solution.price("tpu")


def test_moving_the_storage_together_keeps_the_solution() -> None:
    program = cluster(60)
    for job in range(0, 60, 2):
        program.remove_request(job)
    before = program.solve(tolerance=1e-6)
    program._compact(always=True)
    after = program.solve(tolerance=1e-6)
    assert after.iterations == 0
    assert np.array_equal(before.values, after.values)
    assert after.objective == pytest.approx(-exact(program.linear_program())[1], rel=1e-5)


def test_a_shim_makes_whole_numbers_of_the_solution() -> None:
    solution = cluster(8).solve(shim=lambda found: np.floor(found.values))
    assert solution.integral is not None
    assert np.array_equal(solution.integral, np.floor(solution.values))


def test_a_shim_is_checked_against_what_was_solved_while_others_change_the_program() -> None:
    program = cluster(8)

    def shim(found: Solution) -> np.ndarray:
        adds = threading.Thread(target=program.add_request, args=("new", [1.0]))
        adds.start()
        adds.join()
        return np.floor(found.values)

    solution = program.solve(shim=shim)
    assert np.array_equal(solution.integral, np.floor(solution.values))
    assert "new" in program


def test_a_program_without_an_optimum_is_called_so_and_no_shim_is_asked() -> None:
    program = ContinualProgram()
    program.set_capacity("gpus", 4.0, lower=3.0)
    program.add_request("job", [1.0], {"gpus": 1.0}, upper=1.0)
    assert program.solve(shim=lambda found: np.floor(found.values)).status is Status.INFEASIBLE


def test_a_limit_of_time_is_kept_and_said() -> None:
    solution = cluster(50).solve(tolerance=1e-9, time_limit_s=1e-6)
    assert solution.status is Status.STOPPED
    assert solution.bound >= -exact(cluster(50).linear_program())[1] * (1 - 1e-9)


def test_a_solve_that_was_stopped_is_gone_on_with() -> None:
    program = cluster(50)
    program.solve(tolerance=1e-9, time_limit_s=1e-6)
    solution = program.solve(tolerance=1e-6)
    assert solution.objective == pytest.approx(-exact(program.linear_program())[1], rel=1e-5)


def test_a_change_while_the_program_is_solved_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    program, inside, leave = cluster(5), threading.Event(), threading.Event()
    solve = program._solver.solve

    def held(*arguments: Any) -> Any:
        inside.set()
        assert leave.wait(60)
        return solve(*arguments)

    monkeypatch.setattr(program._solver, "solve", held)
    thread = threading.Thread(target=program.solve)
    thread.start()
    assert inside.wait(60)
    with pytest.raises(RuntimeError, match="is being solved"):
        program.remove_request(0)
    leave.set()
    thread.join()
    program.remove_request(0)
    assert 0 not in program


def test_where_a_request_lies_is_looked_up_when_nobody_else_can_move_it() -> None:
    program = ContinualProgram()
    for id in "abc":
        program.add_request(id, [1.0, 2.0])

    class Costs:
        """Read by the change, while another one that moves everything is attempted."""

        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            with pytest.raises(RuntimeError, match="is being solved or changed"):
                program.remove_request("a")
            return np.array([7.0, 8.0])

    program.change_request("b", cost=Costs())  # type: ignore[arg-type]
    assert program.linear_program().cost.tolist() == [1.0, 2.0, 7.0, 8.0, 1.0, 2.0]


def test_a_program_that_never_had_a_row_is_solved() -> None:
    program = ContinualProgram()
    program.add_request("x", [1.0, -1.0], lower=[2.0, 0.0], upper=[9.0, 3.0])
    assert program.solve().objective == pytest.approx(-1.0)
    program.add_request("free", [1e-6], lower=-np.inf)  # less than the tolerance
    assert program.solve().bound == -np.inf
    program.change_request("free", cost=[1.0])
    assert program.solve(time_limit_s=10.0).status is Status.UNBOUNDED


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"tolerance": 0.0}, "tolerance: is 0"),
        ({"threads": 0}, "threads: is 0"),
        ({"time_limit_s": -1}, "time_limit_s"),
    ],
)
def test_a_solve_that_makes_no_sense_is_refused(named: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ContinualProgram().solve(**named)


def test_the_dual_of_a_constraint_is_what_one_more_unit_of_its_side_adds() -> None:
    def worth(most: float) -> Solution:
        program = ContinualProgram(maximise=True)
        program.add_request("a", [3.0, 1.0], upper=4.0)
        program.add_request("b", [2.0], upper=4.0)
        program.add_constraint("both", {("a", 0): 1.0, ("b", 0): 1.0}, upper=most)
        return program.solve(tolerance=1e-8)

    here = worth(5.0)
    assert here.constraint_dual("both") == pytest.approx(2.0, abs=1e-5)
    assert worth(6.0).objective - here.objective == pytest.approx(2.0, abs=1e-5)
    with pytest.raises(ValueError, match="constraint 'none': was not part of the program"):
        here.constraint_dual("none")


@pytest.mark.parametrize(("cost", "tolerance"), [(1e11, 1e-6), (1e13, 1e-4), (1e10, 1e-8)])
def test_prices_of_a_request_that_left_leave_nothing_behind(cost: float, tolerance: float) -> None:
    program = ContinualProgram(maximise=True)
    program.set_capacity("a", 5.0)
    program.set_capacity("b", 7.0)
    program.add_request("stays", [1.0, 2.0], {"a": [1, 1], "b": [1, 2]}, [Row(1.0, upper=3.0)])
    program.add_request("leaves", [cost], {"a": [3.0], "b": [0.7]})
    program.solve()
    program.remove_request("leaves")
    found = program.solve(tolerance)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(6.0, rel=10 * tolerance)


@pytest.mark.parametrize(("size", "tolerance"), [(1e6, 1e-4), (1e3, 1e-2)])
def test_costs_below_the_tolerance_count_where_there_is_much_to_have(size: float, tolerance: float) -> None:
    program = ContinualProgram(maximise=True)
    program.set_capacity("gb", size)
    for i in range(3):
        program.add_request(i, [0.5 * tolerance, 0.25 * tolerance], {"gb": [1.0, 2.0]})
    found = program.solve(tolerance)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(0.5 * tolerance * size, rel=2 * tolerance)
    assert found.bound == pytest.approx(found.objective, rel=2 * tolerance)


def test_costs_that_are_small_beside_others_count_where_their_variable_is_large() -> None:
    """x is worth 5e-6, and as large as 1e5 where w - v is; no row bounds any of the three by itself."""
    program = ContinualProgram()
    program.add_request("it", cost=[10.0, -5e-6, 0.0, 0.0], lower=[1.0, 0.0, 0.0, 0.0])
    program.add_constraint("same", {("it", 1): 1.0, ("it", 2): -1.0, ("it", 3): 1.0}, lower=0.0, upper=0.0)
    program.add_constraint("most", {("it", 2): 1e-5, ("it", 3): -1e-5}, upper=1.0)
    found = program.solve(tolerance=1e-6)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(9.5, rel=1e-5)


def test_time_that_ends_before_what_has_no_bound_was_looked_at_closer_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def neither_bound_nor_time(run: solver._Run, residuals: object, prices: object) -> bool:
        run.deadline = -np.inf
        return False

    expected = -exact(cluster(50).linear_program())[1]
    assert cluster(50).solve(tolerance=1e-6).status is Status.OPTIMAL
    monkeypatch.setattr(solver, "SMALL", 10_000)  # all columns are worked on at once
    monkeypatch.setattr(solver._Run, "_proves", neither_bound_nor_time)
    found = cluster(50).solve(tolerance=1e-6)
    assert found.status is Status.STOPPED
    assert found.objective == pytest.approx(expected, rel=1e-5)
