"""The baselines: every method finds the same optimum, hot or cold; POP covers every part once."""

from importlib.util import find_spec

import numpy as np
import pytest
from coadapt.optimizer.baselines.highs import Highs, HotHighs, Method, dual_bound
from coadapt.optimizer.baselines.pop import makespan_s, solve_parts
from coadapt.optimizer.linear_program import LinearProgram, Status
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse


def packing(rng: np.random.Generator, rows: int, columns: int) -> LinearProgram:
    """Always feasible (x = 0) and bounded (0 <= x <= 1)."""
    matrix = rng.uniform(0.1, 1, (rows, columns)) * (rng.random((rows, columns)) < 0.6)
    return LinearProgram(
        -rng.uniform(0.1, 1, columns),
        sparse.csr_array(matrix),
        np.full(rows, -np.inf),
        rng.uniform(0.5, 2, rows),
        np.zeros(columns),
        np.ones(columns),
    )


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 12))
def test_every_method_finds_the_same_minimum(seed: int, rows: int, columns: int) -> None:
    program = packing(np.random.default_rng(seed), rows, columns)
    exact = Highs(Method.SIMPLEX).solve(program)
    inner = Highs(Method.INTERIOR_POINT).solve(program)
    first_order = Highs(Method.PDLP, tolerance=1e-6).solve(program)
    assert exact.status is inner.status is first_order.status is Status.OPTIMAL
    assert inner.objective == pytest.approx(exact.objective, abs=1e-6)
    assert first_order.objective == pytest.approx(exact.objective, abs=1e-3)
    assert first_order.bound <= exact.objective + 1e-6
    assert exact.row_dual is not None
    assert dual_bound(program, exact.row_dual) == pytest.approx(exact.objective, abs=1e-6)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([Method.SIMPLEX, Method.PDLP, Method.EXACT]))
def test_a_hot_solver_answers_every_next_program_like_a_cold_one(seed: int, method: Method) -> None:
    """Costs, sides, coefficients, columns and rows come, change and go; the names say which is which."""
    rng = np.random.default_rng(seed)
    whole = packing(rng, 8, 20)
    integer = np.ones(20, dtype=bool) if method is Method.EXACT else None
    hot, cold = HotHighs(method, tolerance=1e-7), Highs(method, tolerance=1e-7)
    for _ in range(4):
        columns = rng.permutation(20)[: rng.integers(5, 20)]
        rows = rng.permutation(8)[: rng.integers(2, 8)]
        matrix = sparse.csr_array(whole.matrix.toarray() * np.where(rng.random((8, 20)) < 0.1, 1.5, 1.0))
        program = LinearProgram(
            whole.cost[columns] * rng.uniform(0.9, 1.1, len(columns)),
            sparse.csr_array(matrix[rows][:, columns]),
            whole.row_lower[rows],
            whole.row_upper[rows] * rng.uniform(0.9, 1.1),
            np.zeros(len(columns)),
            whole.upper[columns],
            None if integer is None else integer[columns],
        )
        ours, reference = hot.solve(program, columns, rows), cold.solve(program)
        assert ours.status is reference.status is Status.OPTIMAL
        slack = 1e-2 if method is Method.PDLP else 1e-3
        assert ours.objective == pytest.approx(reference.objective, rel=slack, abs=slack)
        assert ours.x is not None
        assert (program.matrix @ ours.x <= program.row_upper + 1e-3).all()


def test_a_hot_solver_is_told_which_columns_must_be_whole_from_now_on() -> None:
    hot = HotHighs(Method.EXACT)
    half = sparse.csr_array(np.array([[1.0]]))

    def program(integer: np.ndarray | None) -> LinearProgram:
        sides = np.array([-np.inf]), np.array([1.5])
        return LinearProgram(np.array([-1.0]), half, *sides, np.zeros(1), np.array([np.inf]), integer)

    for integer, most in ((None, 1.5), (np.array([True]), 1.0), (None, 1.5), (np.array([False]), 1.5)):
        assert -hot.solve(program(integer)).objective == pytest.approx(most)


def test_a_mask_of_numbers_is_refused() -> None:
    empty = sparse.csr_array((0, 2))
    with pytest.raises(ValueError, match="integer: is of int64, not of bool"):
        LinearProgram(np.ones(2), empty, np.ones(0), np.ones(0), np.zeros(2), np.ones(2), np.array([0, 1]))


def test_a_rebuilt_model_keeps_its_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coadapt.optimizer.baselines.highs.MAX_CHANGED_COEFFICIENTS", 0)
    rng = np.random.default_rng(0)
    program = packing(rng, 60, 300)
    hot = HotHighs()
    first = hot.solve(program)
    changed = LinearProgram(
        program.cost,
        sparse.csr_array(program.matrix * 1.001),
        program.row_lower,
        program.row_upper,
        program.lower,
        program.upper,
    )
    second = hot.solve(changed)
    assert second.objective == pytest.approx(Highs().solve(changed).objective, abs=1e-6)
    assert second.iterations < first.iterations / 4


def test_hipo_answers_like_simplex_where_it_is_installed_and_says_so_where_it_is_not() -> None:
    program = packing(np.random.default_rng(0), 20, 60)
    if find_spec("highspy_extras") is None:
        with pytest.raises(ValueError, match="hipo needs the package highspy-extras, which is not installed"):
            Highs(Method.HIPO)
    else:
        expected = Highs().solve(program).objective
        found = Highs(Method.HIPO, crossover=False).solve(program)
        assert found.status is Status.OPTIMAL
        assert found.objective == pytest.approx(expected, abs=1e-6)


def test_what_has_no_solution_is_said_so() -> None:
    none = LinearProgram(
        np.ones(1), sparse.csr_array([[1.0]]), np.array([2.0]), np.array([3.0]), np.zeros(1), np.ones(1)
    )
    found = Highs().solve(none)
    assert found.status is Status.INFEASIBLE
    assert found.x is None


def test_what_highs_cannot_do_is_refused_with_a_reason() -> None:
    with pytest.raises(ValueError, match="ipm"):
        HotHighs(Method.INTERIOR_POINT)
    with pytest.raises(ValueError, match="hipo"):  # it cannot, and mostly is not installed either
        HotHighs(Method.HIPO)
    with pytest.raises(ValueError, match=r"gap: is 0, not above 0"):
        Highs(gap=0)
    program = packing(np.random.default_rng(0), 2, 3)
    with pytest.raises(ValueError, match="columns: has names that repeat"):
        HotHighs().solve(program, columns=np.array([1, 1, 2]))


class Numbers:
    """A partition of numbers whose answer is their sum."""

    def __init__(self, numbers: np.ndarray) -> None:
        self.numbers = numbers

    def split(self, k: int, rng: np.random.Generator) -> list[np.ndarray]:
        return np.array_split(rng.permutation(self.numbers), k)

    def solve(self, part: np.ndarray) -> float:
        return float(part.sum())

    def merge(self, parts: list[np.ndarray], answers: list[float]) -> float:
        return sum(answers)


@given(st.integers(1, 20), st.integers(0, 5))
def test_pop_solves_every_part_once(k: int, seed: int) -> None:
    found = solve_parts(Numbers(np.arange(30.0)), k, seed=seed)
    assert found.whole == 435
    assert len(found.part_s) == k
    assert found.seconds >= max(found.part_s)


def test_the_parallel_time_is_that_of_the_core_that_ends_last() -> None:
    assert makespan_s([3, 1, 1, 1], 2) == 3
    assert makespan_s([1, 1, 1, 3], 2) == 4
    assert makespan_s([2, 2], 64) == 2
    with pytest.raises(ValueError, match="k: is 0"):
        solve_parts(Numbers(np.arange(3.0)), 0)
