"""The baselines: every method finds the same optimum, hot or cold; POP covers every part once."""

from importlib.util import find_spec

import numpy as np
import pytest
from coadapt.optimizer.copter.baselines.hot_highs import HotHighs
from coadapt.optimizer.copter.baselines.pop import makespan_s, solve_parts
from coadapt.optimizer.highs import Highs, Method, dual_bound
from coadapt.optimizer.linear_program import LinearProgram, Status
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse


def packing(rng: np.random.Generator, rows: int, columns: int) -> LinearProgram:
    """Draw a program that is always feasible (x = 0) and bounded (0 <= x <= 1)."""
    matrix = rng.uniform(0.1, 1, (rows, columns)) * (rng.random((rows, columns)) < 0.6)
    return LinearProgram(
        -rng.uniform(0.1, 1, columns),
        sparse.csr_array(matrix),
        np.full(rows, -np.inf),
        rng.uniform(0.5, 2, rows),
        np.zeros(columns),
        np.ones(columns),
    )


@settings(max_examples=15)
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
    monkeypatch.setattr("coadapt.optimizer.copter.baselines.hot_highs.MAX_CHANGED_COEFFICIENTS", 0)
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


def small(
    cost: list[float],
    rows: list[list[float]],
    sides: tuple[list[float], list[float]],
    upper: list[float],
    integer: bool | None = None,
) -> LinearProgram:
    """Make a program whose variables go from 0 up."""
    return LinearProgram(
        np.array(cost),
        sparse.csr_array(np.array(rows, float).reshape(len(rows), len(cost))),
        np.array(sides[0]),
        np.array(sides[1]),
        np.zeros(len(cost)),
        np.array(upper),
        None if integer is None else np.full(len(cost), integer),
    )


INF = np.inf
EVERY_METHOD = [Method.SIMPLEX, Method.INTERIOR_POINT, Method.PDLP, Method.EXACT]
HOT_METHODS = [Method.SIMPLEX, Method.PDLP, Method.EXACT]


@pytest.mark.parametrize("integer", [None, False, True])
def test_the_bound_of_an_exact_solve_is_that_of_its_minimum_though_nothing_need_be_whole(
    integer: bool | None,
) -> None:
    found = Highs(Method.EXACT).solve(small([1, -1], [], ([], []), [1, 2], integer))
    assert found.status is Status.OPTIMAL
    assert (found.objective, found.bound, found.gap) == (-2, -2, 0)


def test_the_bound_stays_proven_where_numbers_must_no_longer_be_whole() -> None:
    hot = HotHighs(Method.EXACT)
    for integer, minimum in ((True, -4), (None, -5), (True, -4), (False, -5)):
        found = hot.solve(small([-1, -2], [[2, 2]], ([-INF], [5]), [3, 3], integer))
        assert found.objective == pytest.approx(minimum)
        assert found.bound == pytest.approx(minimum)


@pytest.mark.parametrize("method", EVERY_METHOD)
@pytest.mark.parametrize("integer", [None, True])
def test_without_a_minimum_there_is_no_point_and_no_bound(method: Method, integer: bool | None) -> None:
    without = {
        Status.UNBOUNDED: small([-1, -1], [[1, -1]], ([-1], [1]), [INF, INF], integer),
        Status.INFEASIBLE: small([1, 1], [[1, 1]], ([5], [6]), [1, 1], integer),
    }
    for status, program in without.items():
        found = Highs(method).solve(program)
        assert found.status is status
        assert found.x is None
        assert np.isnan(found.objective)
        assert found.bound == -INF


@pytest.mark.parametrize("solver", [*map(Highs, EVERY_METHOD), *map(HotHighs, HOT_METHODS)], ids=lambda s: s.name)
def test_a_program_without_columns_is_solved_or_infeasible_as_its_rows_say(solver: Highs) -> None:
    for sides in (([], []), ([-1.0], [2.0]), ([-INF, 0.0], [0.0, INF])):
        found = solver.solve(small([], [[]] * len(sides[0]), sides, []))
        assert found.status is Status.OPTIMAL
        assert (found.objective, found.bound) == (0, 0)
        assert found.x is not None
        assert found.x.shape == (0,)
    for sides in (([1.0], [2.0]), ([-2.0], [-1.0])):
        found = solver.solve(small([], [[]], sides, []))
        assert found.status is Status.INFEASIBLE
        assert found.x is None


def test_a_hot_solver_goes_on_after_a_program_without_columns_and_one_that_is_refused() -> None:
    hot = HotHighs()
    program = small([-1, -2], [[1, 1]], ([-INF], [4]), [3, 3])
    for _ in range(2):
        assert hot.solve(program).objective == pytest.approx(-7)
        hot.solve(small([], [[]], ([-1], [1]), []))
        with pytest.raises(ValueError, match="matrix"):
            hot.solve(small([-1, -2], [[1e16, 1]], ([-INF], [4]), [3, 3]))


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_numbers_too_large_for_highs_are_refused(method: Method) -> None:
    told = r"matrix: has an entry of size 1e\+16; less than 1e\+15 is accepted by HiGHS"
    with pytest.raises(ValueError, match=told):
        Highs(method).solve(small([-1], [[-1e16]], ([-INF], [1]), [1]))
    with pytest.raises(ValueError, match=r"row_lower: has an entry of size 1e\+21; less than 1e\+20 is accepted"):
        Highs(method).solve(small([1], [[1]], ([1e21], [INF]), [INF]))


@pytest.mark.parametrize("method", EVERY_METHOD)
def test_a_small_coefficient_counts(method: Method) -> None:
    found = Highs(method).solve(small([-1], [[1e-10]], ([-INF], [1]), [1e12]))
    assert found.objective == pytest.approx(-1e10)


def in_parts(*parts: float) -> LinearProgram:
    """Return the program that minimises x, where the parts' sum times x is at least 1."""
    where = np.zeros(len(parts), int), np.array([0, len(parts)])
    matrix = sparse.csr_array((np.array(parts), *where), shape=(1, 1))
    return LinearProgram(np.ones(1), matrix, np.ones(1), np.full(1, INF), np.zeros(1), np.full(1, INF))


def test_a_coefficient_given_in_parts_is_their_sum() -> None:
    hot = HotHighs()
    for solver in (Highs(), hot, hot):
        assert solver.solve(in_parts(1.0, 1.0)).objective == pytest.approx(0.5)
    with pytest.raises(ValueError, match="program: is refused by HiGHS"):
        Highs().solve(in_parts(9e14, 9e14))


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
