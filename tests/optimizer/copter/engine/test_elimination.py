"""Which rows of Newton's systems are eliminated first, and what of rows that say the same."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.optimizer.copter.engine.elimination import eliminate, elimination
from coadapt.optimizer.copter.engine.kernels import SparseColumns
from scipy import sparse


def columns_of(matrix: sparse.csc_array) -> SparseColumns:
    return SparseColumns.packed(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)


def test_of_requests_that_pick_one_only_what_they_share_is_left() -> None:
    """300 requests of 5 variables and one row each, over 3 capacities, are a system of 3."""
    requests, capacities = 300, 3
    rng = np.random.default_rng(1)
    one_each = sparse.kron(sparse.eye_array(requests), np.ones((1, 5)))
    shared = sparse.csr_array(rng.integers(1, 9, (capacities, 5 * requests)).astype(float))
    matrix = sparse.csc_array(sparse.vstack([shared, one_each]))
    rule = elimination(columns_of(matrix), capacities + requests)
    assert rule.dense == capacities
    assert (rule.place[:capacities] >= 0).all()
    assert rule.own.tolist() == np.repeat(np.arange(capacities, capacities + requests), 5).tolist()


def test_rows_that_say_the_same_leave_a_solution() -> None:
    """Twice the same row, and next to nothing on the diagonal: the step still goes where both rows pull."""
    matrix = sparse.csc_array(np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 0.0], [0.0, 1.0, 1.0]]))
    columns = columns_of(matrix)
    out, right = np.empty(3), np.array([5.0, 5.0, 3.0])
    free, row_free = np.ones(3, bool), np.zeros(3, bool)
    eliminate(columns, elimination(columns, 3), free, row_free, 1.0, 1e-18, right, out)
    assert np.isfinite(out).all()
    a = matrix.toarray()
    assert a @ a.T @ out == pytest.approx(right, rel=1e-6)
