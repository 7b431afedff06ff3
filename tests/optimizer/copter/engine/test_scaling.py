"""Scaled rows and columns have lengths near 1 in any units; a change leaves what others have as it is."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.optimizer.copter.engine import ContinualProgram, Row
from coadapt.optimizer.copter.engine.scaling import rescale
from coadapt.optimizer.copter.engine.storage import OWN, Storage


def program(requests: int = 40, unit: float = 1.0) -> tuple[ContinualProgram, Storage]:
    """Make requests of three variables with an own row, on two resources counted in different units."""
    rng = np.random.default_rng(1)
    found = ContinualProgram()
    found.set_capacity("gpus", 100.0)
    found.set_capacity("bytes", 100.0 * unit)
    for i in range(requests):
        uses = {"gpus": rng.uniform(1, 8, 3), "bytes": unit * rng.uniform(1, 50, 3)}
        found.add_request(f"r{i}", rng.normal(size=3), uses, [Row(1.0, upper=1.0)])
    return found, found._storage


def scaled(storage: Storage) -> np.ndarray:
    """Return the scaled matrix, (rows, columns)."""
    matrix = np.zeros((storage.rows.top, storage.columns.top))
    for column in range(storage.columns.top):
        for k in range(storage.start[column], storage.end[column]):
            row = storage.entry_row[k]
            matrix[row, column] += storage.entry_value[k] * storage.row_scale[row] * storage.column_scale[column]
    return matrix


def near_one(matrix: np.ndarray, axis: int) -> bool:
    """Return whether all lengths are within a factor of ten of 1; unscaled they are up to 1e12 apart."""
    lengths = np.linalg.norm(matrix, axis=axis)
    return bool((lengths > 0.1).all() and (lengths < 10.0).all())


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e12])
def test_lengths_are_near_one_in_any_units(unit: float) -> None:
    _, storage = program(unit=unit)
    rescale(storage, everything=True)
    found = scaled(storage)
    assert near_one(found, axis=0)
    assert near_one(found, axis=1)


def test_a_request_that_comes_changes_no_scale_but_its_own() -> None:
    found, storage = program()
    rescale(storage, everything=True)
    columns, rows = storage.column_scale.copy(), storage.row_scale.copy()
    known = storage.columns.top, storage.rows.top
    found.add_request("new", [1.0, 2.0], {"gpus": 1e6, "bytes": [1.0, 2.0]}, [Row([1.0, 1e-3], upper=1.0)])
    assert storage.stale[: storage.columns.top].tolist() == [False] * known[0] + [True] * 2
    rescale(storage, everything=False)
    assert not storage.stale.any()
    assert (storage.column_scale[: known[0]] == columns[: known[0]]).all()
    assert (storage.row_scale[: known[1]] == rows[: known[1]]).all()
    mine = scaled(storage)[:, known[0] :]
    assert np.linalg.norm(mine, axis=0) == pytest.approx(1.0, rel=0.5)
    own = storage.kind[: storage.rows.top] == OWN
    assert np.abs(mine[own & (np.arange(storage.rows.top) >= known[1])]).max() == pytest.approx(1.0, rel=0.5)


def test_where_many_are_new_all_are_scaled_anew() -> None:
    found, storage = program()
    rescale(storage, everything=True)
    for i in range(40):
        found.add_request(f"new-{i}", [1.0], {"gpus": 1e9})
    rescale(storage, everything=False)
    assert near_one(scaled(storage), axis=1)


def test_empty_rows_and_columns_keep_a_scale_of_one() -> None:
    found = ContinualProgram()
    found.set_capacity("unused", 5.0)
    found.add_request("free", [1.0])
    rescale(found._storage, everything=True)
    assert (found._storage.row_scale[0], found._storage.column_scale[0]) == (1.0, 1.0)
