"""Newton's systems are solved as a dense solver would, whichever rows are eliminated first."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.optimizer.continual.elimination import eliminate, elimination
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse


def solved(matrix: sparse.csc_array, free: np.ndarray, row_free: np.ndarray, right: np.ndarray) -> np.ndarray:
    start, row = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    out = np.empty(len(right))
    rule = elimination(start, row, len(right))
    eliminate(start, row, matrix.data, rule, free, row_free, SIGMA, RHO, right, out)
    return out


def system(matrix: sparse.csc_array, free: np.ndarray, row_free: np.ndarray) -> np.ndarray:
    a = matrix.toarray()[:, free]
    return SIGMA * (a @ a.T + np.diag(row_free.astype(float))) + RHO * np.eye(len(a))


SIGMA, RHO = 3.0, 0.01


@given(st.integers(0, 10**6))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_solution_is_that_of_the_whole_system(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 30)), int(rng.integers(0, 40))
    matrix = sparse.csc_array(rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < rng.random() / 2))
    free, row_free = rng.random(columns) < 0.6, rng.random(rows) < 0.5
    right = rng.normal(size=rows)
    expected = np.linalg.solve(system(matrix, free, row_free), right)
    assert solved(matrix, free, row_free, right) == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_dense_systems_are_solved_as_well() -> None:
    rng = np.random.default_rng(0)
    rows = 120
    matrix = sparse.csc_array(rng.normal(size=(rows, 2 * rows)))
    free, row_free, right = np.ones(2 * rows, bool), np.zeros(rows, bool), rng.normal(size=rows)
    expected = np.linalg.solve(system(matrix, free, row_free), right)
    assert solved(matrix, free, row_free, right) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_of_requests_that_pick_one_only_what_they_share_is_left() -> None:
    """300 requests of 5 variables and one row each, over 3 capacities, are a system of 3."""
    requests, capacities = 300, 3
    rng = np.random.default_rng(1)
    one_each = sparse.kron(sparse.eye_array(requests), np.ones((1, 5)))
    shared = sparse.csr_array(rng.integers(1, 9, (capacities, 5 * requests)).astype(float))
    matrix = sparse.csc_array(sparse.vstack([shared, one_each]))
    rule = elimination(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), capacities + requests)
    assert rule.dense == capacities
    assert (rule.place[:capacities] >= 0).all()
    assert rule.own.tolist() == np.repeat(np.arange(capacities, capacities + requests), 5).tolist()


def test_rows_that_say_the_same_leave_a_solution() -> None:
    """Twice the same row, and next to nothing on the diagonal: the step still goes where both rows pull."""
    matrix = sparse.csc_array(np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 0.0], [0.0, 1.0, 1.0]]))
    start, row = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    out, right = np.empty(3), np.array([5.0, 5.0, 3.0])
    free, row_free = np.ones(3, bool), np.zeros(3, bool)
    eliminate(start, row, matrix.data, elimination(start, row, 3), free, row_free, 1.0, 1e-18, right, out)
    assert np.isfinite(out).all()
    a = matrix.toarray()
    assert a @ a.T @ out == pytest.approx(right, rel=1e-6)
