"""When systems of many rows are factorised: not if that is too much; programs are solved in either way."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.optimizer import ContinualProgram
from coadapt.optimizer.baselines.highs import Highs, Method
from coadapt.optimizer.continual import factorization, proximal
from coadapt.optimizer.continual.factorization import Factorization
from coadapt.optimizer.linear_program import LinearProgram, Status
from scipy import sparse


def made(matrix: sparse.csc_array) -> Factorization:
    return Factorization(matrix.indptr, matrix.indices, matrix.data, matrix.shape[0])


def test_a_singular_system_has_no_solution() -> None:
    twice = sparse.csc_array(np.array([[1.0, 2.0], [1.0, 2.0]]))
    assert made(twice).solve(np.ones(2, bool), np.zeros(2, bool), 1.0, 0.0, np.ones(2)) is None


def test_what_would_be_too_much_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    dense = made(sparse.csc_array(np.ones((30, 4))))
    assert dense.may_solve(np.ones(4, bool))
    monkeypatch.setattr(factorization, "PRODUCTS", 3 * 30**2)
    assert not dense.may_solve(np.ones(4, bool))
    assert dense.may_solve(np.arange(4) < 3)
    monkeypatch.setattr(factorization, "ROWS", 29)
    assert not dense.may_solve(np.zeros(4, bool))


def stages(count: int, rows: int, columns: int, seed: int) -> LinearProgram:
    """A plan over time: what a stage makes, the next one uses. A point and prices are drawn that are optimal."""
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
    ("settings", "factorised"),
    [
        ({"CG_PATIENCE": 0, "CG_CHEAP": 0.0}, True),
        ({"CG_PATIENCE": 10**9}, False),
        ({"CG_PATIENCE": 0, "CG_CHEAP": 0.0, "DEARER": 0.0}, True),
    ],
    ids=["by factorizations", "by gradients", "by gradients again where factors are too large"],
)
def test_programs_are_solved_in_either_way(
    settings: dict[str, float], factorised: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setattr(proximal, name, value)
    asked: list[int] = []
    may_solve = Factorization.may_solve
    monkeypatch.setattr(Factorization, "may_solve", lambda *a: asked.append(1) or may_solve(*a))
    program = stages(20, 12, 30, seed)
    found = ContinualProgram.of(program).solve(tolerance=1e-6, time_limit_s=60.0)
    assert found.status is Status.OPTIMAL
    expected = Highs(Method.SIMPLEX).solve(program).objective
    assert found.objective == pytest.approx(expected, rel=1e-4)
    assert found.bound <= expected + 1e-6 * abs(expected)
    assert bool(asked) is factorised
