"""Newton's systems are solved as a dense solver would, by eliminating rows and by a sparse factorization."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from coadapt.optimizer.copter.engine.elimination import eliminate, elimination
from coadapt.optimizer.copter.engine.factorization import Factorization
from coadapt.optimizer.copter.engine.kernels import SparseColumns
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

SIGMA, RHO = 3.0, 0.01
Solve = Callable[[sparse.csc_array, np.ndarray, np.ndarray, np.ndarray], np.ndarray | None]


def by_elimination(
    matrix: sparse.csc_array, free: np.ndarray, row_free: np.ndarray, right: np.ndarray
) -> np.ndarray:
    columns = SparseColumns.packed(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)
    out = np.empty(len(right))
    rule = elimination(columns, len(right))
    eliminate(columns, rule, free, row_free, SIGMA, RHO, right, out)
    return out


def by_factorization(
    matrix: sparse.csc_array, free: np.ndarray, row_free: np.ndarray, right: np.ndarray
) -> np.ndarray | None:
    made = Factorization(SparseColumns.packed(matrix.indptr, matrix.indices, matrix.data), len(right))
    return made.solve(free, row_free, SIGMA, RHO, right)


def system(matrix: sparse.csc_array, free: np.ndarray, row_free: np.ndarray) -> np.ndarray:
    a = matrix.toarray()[:, free]
    return SIGMA * (a @ a.T + np.diag(row_free.astype(float))) + RHO * np.eye(len(a))


both = pytest.mark.parametrize("solve", [by_elimination, by_factorization])


@both
@given(st.integers(0, 10**6))
@settings(max_examples=100)
def test_the_solution_is_that_of_the_whole_system(solve: Solve, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 30)), int(rng.integers(0, 40))
    matrix = sparse.csc_array(rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < rng.random() / 2))
    free, row_free = rng.random(columns) < 0.6, rng.random(rows) < 0.5
    right = rng.normal(size=rows)
    expected = np.linalg.solve(system(matrix, free, row_free), right)
    assert solve(matrix, free, row_free, right) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@both
def test_dense_systems_are_solved_as_well(solve: Solve) -> None:
    rng = np.random.default_rng(0)
    rows = 120
    matrix = sparse.csc_array(rng.normal(size=(rows, 2 * rows)))
    free, row_free, right = np.ones(2 * rows, bool), np.zeros(rows, bool), rng.normal(size=rows)
    expected = np.linalg.solve(system(matrix, free, row_free), right)
    assert solve(matrix, free, row_free, right) == pytest.approx(expected, rel=1e-6, abs=1e-9)
