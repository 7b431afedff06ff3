"""The choice program: exact against an independent model, always feasible, never silently wrong."""

import itertools

import numpy as np
import pytest
from coadapt.optimizer.allocation import ChoiceProblem, ChoiceSolution
from coadapt.optimizer.copter.baselines.milp import solve
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, milp


def random_problem(seed: int, rows: int, limits: int, columns: int, required: float = 0.0) -> ChoiceProblem:
    rng = np.random.default_rng(seed)
    usage = np.zeros((limits, columns))
    usage[rng.integers(0, limits, columns), np.arange(columns)] = rng.integers(1, 9, columns)
    value = rng.normal(0.5, 1.0, (rows, columns))
    allowed = rng.random((rows, columns)) < 0.8
    must = rng.random(rows) < required
    return ChoiceProblem(value, allowed, usage, rng.integers(2, 4 + 3 * rows, limits).astype(float), must)


def reference(problem: ChoiceProblem) -> float | None:
    """Return the optimum by SciPy's model of the full program; None if it is infeasible."""
    rows, columns = problem.value.shape
    each = np.kron(np.eye(rows), np.ones(columns))
    usage = np.tile(problem.usage, rows)
    must = problem.required if problem.required is not None else np.zeros(rows)
    result = milp(
        -np.where(problem.allowed, problem.value, 0).ravel(),
        constraints=[LinearConstraint(each, must, 1), LinearConstraint(usage, 0, problem.capacity)],
        integrality=1,
        bounds=(0, problem.allowed.ravel().astype(float)),
    )
    return None if result.x is None else float(-result.fun)


def check(problem: ChoiceProblem, solution: ChoiceSolution) -> None:
    picked = np.flatnonzero(solution.choice >= 0)
    columns = solution.choice[picked]
    assert problem.allowed[picked, columns].all()
    assert (problem.usage[:, columns].sum(axis=1) <= problem.capacity + 1e-9).all()
    assert solution.objective == pytest.approx(problem.value[picked, columns].sum(), abs=1e-9)
    assert solution.bound >= solution.objective - 1e-9
    if problem.required is not None:
        must = np.flatnonzero(problem.required)
        assert set(must) - set(solution.unmet) <= set(picked)


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 4), st.integers(1, 9))
@settings(max_examples=150)
def test_the_optimum_is_found(seed: int, rows: int, limits: int, columns: int) -> None:
    problem = random_problem(seed, rows, limits, columns)
    solution = solve(problem, gap=0.0)
    check(problem, solution)
    best = reference(problem)
    assert best is not None
    assert solution.objective == pytest.approx(best, abs=1e-5)
    assert solution.bound >= best - 1e-6
    assert solution.proven


def test_the_gap_that_is_asked_for_is_relative_to_the_bound_that_is_returned() -> None:
    """The relaxation's bound, which is larger, would let it end too early."""
    found = solve(random_problem(334910, 7, 2, 8), gap=0.05)
    assert found.proven
    assert found.gap <= 0.05 + 1e-7


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 3))
@example(61, 5, 1)  # a degenerate relaxation, with a dual on the lower side of an optional row
@settings(max_examples=150)
def test_required_rows_are_satisfied_or_named(seed: int, rows: int, limits: int) -> None:
    problem = random_problem(seed, rows, limits, 6, required=0.5)
    solution = solve(problem, gap=0.0)
    check(problem, solution)
    best = reference(problem)
    assert (best is None) == bool(solution.unmet)
    if best is not None:
        assert solution.objective == pytest.approx(best, abs=1e-5)


def test_of_required_rows_that_do_not_all_fit_the_first_are_served() -> None:
    problem = ChoiceProblem(
        np.full((3, 1), -5.0), np.ones((3, 1), bool), np.array([[4.0]]), np.array([8.0]), np.ones(3, bool)
    )
    solution = solve(problem)
    assert solution.unmet == (2,)
    assert solution.choice.tolist() == [0, 0, -1]


@pytest.mark.parametrize("small", [0.004, 0.05])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_beside_large_amounts_of_a_limit_tiny_ones_are_not_taken_for_nothing(seed: int, small: float) -> None:
    """HiGHS' own tolerance, of 35,000, is as much as two rows take here: it found more than there is."""
    value = np.random.default_rng(seed).uniform(1, 3, (49, 2)) * [10.0, 8.0]
    usage, capacity = np.array([[7000.0, small], [6.0, 5000.0]]), np.array([35_000.0, 15_000.0])
    problem = ChoiceProblem(value, np.ones(value.shape, bool), usage, capacity)
    solution = solve(problem, time_limit_s=60.0, gap=1e-3)
    check(problem, solution)
    assert solution.proven


@pytest.mark.parametrize("limit_s", [1e-9, 1e-4, 1e-3])
def test_a_feasible_choice_exists_however_short_the_time(limit_s: float) -> None:
    problem = random_problem(3, rows=200, limits=3, columns=20)
    solution = solve(problem, time_limit_s=limit_s)
    check(problem, solution)
    best = solve(problem)
    assert solution.objective > 0.8 * best.objective
    assert solution.bound >= best.objective - 1e-6


def test_the_price_is_what_one_more_gpu_would_add() -> None:
    """Four jobs, three GPUs: the worth of the next GPU is that of the job that goes without."""
    problem = ChoiceProblem(
        np.array([[4.0], [3.0], [2.0], [1.0]]), np.ones((4, 1), bool), np.array([[1.0]]), np.array([2.5])
    )
    assert solve(problem).prices == pytest.approx([2.0])


def test_nothing_to_choose_is_no_error() -> None:
    for rows, columns in itertools.product((0, 3), (0, 2)):
        if rows and columns:
            continue
        solution = solve(
            ChoiceProblem(
                np.zeros((rows, columns)), np.zeros((rows, columns), bool), np.zeros((1, columns)), np.ones(1)
            )
        )
        assert solution.choice.tolist() == [-1] * rows
        assert solution.objective == 0.0


def test_equal_calls_give_equal_choices() -> None:
    problem = random_problem(5, 40, 3, 12)
    assert solve(problem).choice.tolist() == solve(problem).choice.tolist()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"value": np.full((2, 2), np.nan)}, r"value\[0, 0\]: is nan"),
        ({"value": np.zeros(3)}, r"value: has shape \(3,\)"),
        ({"allowed": np.ones((2, 3), bool)}, r"allowed: has shape \(2, 3\), not \(2, 2\)"),
        ({"capacity": np.array([-1.0])}, "capacity: has entries that are negative"),
        ({"usage": np.array([[np.inf, 1.0]])}, "usage: has entries"),
        ({"required": np.ones(1, bool)}, r"required: has shape \(1,\), not \(2,\)"),
    ],
)
def test_bad_input_is_named(change: dict[str, np.ndarray], said: str) -> None:
    good = {
        "value": np.ones((2, 2)),
        "allowed": np.ones((2, 2), bool),
        "usage": np.ones((1, 2)),
        "capacity": np.ones(1),
    }
    with pytest.raises(ValueError, match=said):
        ChoiceProblem(**{**good, **change})
