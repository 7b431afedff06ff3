"""A choice problem whose arrays do not agree is refused in one sentence; usage may depend on the kind of a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coadapt.optimizer.allocation import ChoiceProblem
from coadapt.optimizer.allocation.problem import checked_kinds

GOOD: dict[str, Any] = {
    "value": np.array([[1.0, 2.0, np.nan], [3.0, 4.0, 5.0]]),
    "allowed": np.array([[True, True, False], [True, True, True]]),
    "usage": np.array([[1.0, 2.0, 3.0]]),
    "capacity": np.array([4.0]),
}
BY_KIND = np.array([[[1.0, 2.0, 3.0]], [[10.0, 20.0, 30.0]]])  # (kinds, limits, columns)


def test_what_is_not_allowed_may_be_worth_anything() -> None:
    problem = ChoiceProblem(**GOOD)
    assert problem.kinds.tolist() == [0, 0]
    assert problem.usage_by_kind.shape == (1, 1, 3)


def test_a_pick_takes_what_the_kind_of_its_row_says() -> None:
    row, column = np.array([0, 1]), np.array([1, 2])
    assert ChoiceProblem(**GOOD).usage_of(row, column).tolist() == [[2.0, 3.0]]
    kinds = ChoiceProblem(**GOOD | {"usage": BY_KIND, "kind": np.array([1, 0])})
    assert kinds.usage_of(row, column).tolist() == [[20.0, 3.0]]
    assert kinds.usage_of(np.empty(0, int), np.empty(0, int)).shape == (1, 0)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"value": np.zeros(3)}, r"value: has shape \(3,\), not \(rows, columns\)"),
        (
            {"allowed": np.ones((2, 2), bool)},
            r"allowed: has shape \(2, 2\), not \(2, 3\) as value and capacity say",
        ),
        ({"usage": np.zeros((2, 3))}, r"usage: has shape \(2, 3\), not \(1, 3\)"),
        ({"usage": BY_KIND[:, :, :2]}, r"usage: has shape \(2, 1, 2\), not \(2, 1, 3\)"),
        ({"required": np.zeros(3, bool)}, r"required: has shape \(3,\), not \(2,\)"),
        ({"allowed": np.ones((2, 3), bool)}, r"value\[0, 2\]: is nan, not a finite number, where it is allowed"),
        ({"usage": np.array([[1.0, -2.0, 3.0]])}, "usage: has entries that are negative or not finite"),
        ({"capacity": np.array([np.inf])}, "capacity: has entries that are negative or not finite"),
        ({"kind": np.array([0, 1])}, "kind: must be whole numbers from 0 to 0, as usage says"),
        ({"usage": BY_KIND, "kind": np.array([0, 2])}, "kind: must be whole numbers from 0 to 1"),
        ({"usage": BY_KIND, "kind": np.array([0.0, 1.0])}, "kind: must be whole numbers from 0 to 1"),
    ],
)
def test_arrays_that_do_not_agree_are_refused_in_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as told:
        ChoiceProblem(**GOOD | changes)
    assert "\n" not in str(told.value)


def test_rows_are_of_kind_0_unless_said_otherwise() -> None:
    assert checked_kinds(None, 3, 2).tolist() == [0, 0, 0]
    assert checked_kinds(np.array([1, 0], np.int8), 2, 2).dtype == np.int64
