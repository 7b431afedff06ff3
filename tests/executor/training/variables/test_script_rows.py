"""Rows of a script's own records: a batch of several passes leaves one, with means and sums where they belong."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from coadapt.executor.training.variables.script_rows import RowCounts, is_row, numbers_of, with_numbers


class Row(NamedTuple):
    loss: float
    samples: int


@pytest.mark.parametrize(
    ("row", "numbers"),
    [
        ({"loss": 0.5, "n": 8}, {"/loss": 0.5, "/n": 8}),
        (Row(0.5, 8), {"/0": 0.5, "/1": 8}),
        ([1, {"a": np.float32(2.0)}], {"/0": 1, "/1/a": np.float32(2.0)}),
        ({"deep": {"deeper": {"deepest": {"lost": 1}}}}, {}),
        ({"name": "x", "done": True, "none": None}, {}),
        ({"mask": torch.tensor(True), "loss": torch.tensor(0.5)}, {"/loss": torch.tensor(0.5)}),
        ({"vector": torch.ones(2), "graph": torch.ones((), requires_grad=True)}, {}),
        (list(range(65)), {}),
        (3, {}),
    ],
)
def test_single_numbers_of_a_row_are_found_by_their_path(row: Any, numbers: dict[str, Any]) -> None:
    assert numbers_of(row) == numbers


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"loss": 0.5}, True),
        ((0.5, 0.7), True),
        ([0.5, 8], True),
        ([0.5, 0.7], False),  # may be of two samples
        ([], False),
        (("x", 1), False),
        (0.5, False),
    ],
)
def test_a_row_is_told_from_entries_of_samples(value: Any, expected: bool) -> None:
    assert is_row(value) is expected


def test_a_row_with_other_numbers_is_the_same_objects_where_they_can_change() -> None:
    inner = {"acc": 0.5}
    row: dict[str, Any] = {"loss": 1.0, "inner": inner, "pair": Row(0.1, 8), "plain": (1, 2), "name": "x"}
    found = with_numbers(row, {"/loss": 2.0, "/inner/acc": 0.7, "/pair/1": 16, "/plain/0": 5})
    assert found is row
    assert found["inner"] is inner
    assert found == {"loss": 2.0, "inner": {"acc": 0.7}, "pair": Row(0.1, 16), "plain": (5, 2), "name": "x"}
    assert type(found["pair"]) is Row


def test_whole_numbers_that_differ_between_passes_count_something() -> None:
    counts = RowCounts()
    assert counts.total("/hits", [(8, 3), (8, 5)]) == 8
    assert counts.total("/hits", [(8, 4), (8, 4)]) == 8, "as it is known by now"


def test_numbers_that_are_the_samples_of_each_pass_count_them_unless_they_were_others_before() -> None:
    counts = RowCounts()
    assert counts.total("/n", [(8, 8), (8, 8)]) == 16
    assert counts.total("/epoch", [(8, 3), (8, 3)]) is None
    assert counts.total("/epoch", [(3, 3), (3, 3)]) is None
