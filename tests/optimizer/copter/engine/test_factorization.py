"""When systems of many rows are factorised: not if that is too much; programs are solved in either way."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.optimizer.copter.engine import ContinualProgram, factorization, proximal
from coadapt.optimizer.copter.engine.factorization import Factorization, envelope_work
from coadapt.optimizer.copter.engine.kernels import SparseColumns
from coadapt.optimizer.highs import Highs, Method
from coadapt.optimizer.linear_program import LinearProgram, Status
from scipy import sparse


def made(matrix: sparse.csc_array) -> Factorization:
    return Factorization(SparseColumns.packed(matrix.indptr, matrix.indices, matrix.data), matrix.shape[0])


def test_a_singular_system_gives_no_step() -> None:
    twice = sparse.csc_array(np.array([[1.0, 2.0], [1.0, 2.0]]))
    step = made(twice).solve(np.ones(2, bool), np.zeros(2, bool), 1.0, 0.0, np.ones(2))
    assert step is not None
    assert not step.any()


def test_what_would_be_too_much_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = 40
    matrix = sparse.csc_array(rng.normal(size=(rows, 4)))
    given = (np.ones(4, bool), np.zeros(rows, bool), 1.0, 0.1, np.ones(rows))
    assert made(matrix).solve(*given) is not None
    monkeypatch.setattr(factorization, "PRODUCTS", 3 * rows**2)
    assert made(matrix).solve(*given) is None
    monkeypatch.setattr(factorization, "PRODUCTS", 4 * rows**2)
    monkeypatch.setattr(factorization, "SMALL", rows - 1)
    monkeypatch.setattr(factorization, "ENVELOPE", 10_000)
    assert made(matrix).solve(*given) is None, "all 40 rows meet: 20,540 multiplications"
    monkeypatch.setattr(factorization, "ENVELOPE", 30_000)
    assert made(matrix).solve(*given) is not None


def test_the_envelope_is_that_of_an_order_that_keeps_it_small() -> None:
    size = 50
    chain = sparse.diags_array([np.ones(size - 1), np.ones(size), np.ones(size - 1)], offsets=[-1, 0, 1])
    mixed = np.random.default_rng(0).permutation(size)
    assert envelope_work(sparse.csc_matrix(sparse.csc_array(chain)[:, mixed][mixed])) == size - 1


def test_a_step_of_factors_that_does_not_climb_leaves_it_to_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proximal, "CG_PATIENCE", 0)
    monkeypatch.setattr(proximal, "CG_CHEAP", 0.0)
    monkeypatch.setattr(Factorization, "solve", lambda self, free, row_free, sigma, rho, right: -right)
    program = stages(20, 12, 30, 0)
    found = ContinualProgram.of(program).solve(tolerance=1e-6, time_limit_s=60.0)
    assert found.objective == pytest.approx(Highs(Method.SIMPLEX).solve(program).objective, rel=1e-4)


def test_after_a_singular_system_the_next_one_is_factorised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proximal, "CG_PATIENCE", 0)
    monkeypatch.setattr(proximal, "CG_CHEAP", 0.0)
    asked: list[int] = []
    solve = Factorization.solve

    def the_third_is_singular(self: Factorization, *given: object) -> np.ndarray | None:
        asked.append(1)
        step = solve(self, *given)
        return step if len(asked) != 3 or step is None else np.zeros(len(step))

    monkeypatch.setattr(Factorization, "solve", the_third_is_singular)
    program = stages(20, 12, 30, 0)
    found = ContinualProgram.of(program).solve(tolerance=1e-6, time_limit_s=60.0)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(Highs(Method.SIMPLEX).solve(program).objective, rel=1e-4)
    assert len(asked) > 10, "a singular system does not end them"


def stages(count: int, rows: int, columns: int, seed: int) -> LinearProgram:
    """Draw a plan over time, in which a stage makes what the next one uses, around an optimal point and prices."""
    rng = np.random.default_rng(seed)
    blocks: list[list[np.ndarray | None]] = [[None] * count for _ in range(count)]
    for t in range(count):
        for before in range(max(t - 1, 0), t + 1):
            blocks[t][before] = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < 0.3)
    matrix = sparse.csr_array(sparse.block_array(blocks))
    size = count * columns
    x = np.where(rng.random(size) < rows / columns, rng.exponential(1.0, size), 0.0)
    cost = matrix.T @ rng.normal(size=count * rows) + np.where(x > 0, 0.0, rng.exponential(1.0, size))
    sides = matrix @ x
    return LinearProgram(cost, matrix, sides, sides, np.zeros(size), np.full(size, np.inf))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("settings", "least", "most"),
    [
        ({"CG_PATIENCE": 0, "CG_CHEAP": 0.0}, 10, 10**6),
        ({"CG_PATIENCE": 10**9}, 0, 0),
        ({"CG_PATIENCE": 0, "CG_CHEAP": 0.0, "DEARER": 0.0}, 1, 1),
    ],
    ids=["by factorizations", "by gradients", "by gradients again where factors are too large"],
)
def test_programs_are_solved_in_either_way(
    settings: dict[str, float], least: int, most: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setattr(proximal, name, value)
    asked: list[int] = []
    solve = Factorization.solve
    monkeypatch.setattr(Factorization, "solve", lambda *a: asked.append(1) or solve(*a))
    program = stages(20, 12, 30, seed)
    found = ContinualProgram.of(program).solve(tolerance=1e-6, time_limit_s=60.0)
    assert found.status is Status.OPTIMAL
    expected = Highs(Method.SIMPLEX).solve(program).objective
    assert found.objective == pytest.approx(expected, rel=1e-4)
    assert found.bound <= expected + 1e-6 * abs(expected)
    assert least <= len(asked) <= most
