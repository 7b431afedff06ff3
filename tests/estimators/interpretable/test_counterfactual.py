"""Counterfactuals: what looking at every row finds, the nearest first, and how they differ."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.interpretable.counterfactual import nearest
from coadapt.estimators.interpretable.table import Feature, Floats, named
from hypothesis import given
from hypothesis import strategies as st


def test_a_hand_worked_case() -> None:
    rows = np.array([[0.0, 10.0], [1.0, 0.0], [4.0, 5.0], [2.0, 0.0]])
    found = nearest(named("ab"), rows, np.array([1.0, 1.0, 1.0, 0.0]), np.array([0.0, 0.0]), 1.0, 2)
    # Scaled by 4 and 10: distances are 1, 0.25 and √1.25.
    assert [(one.row, one.distance) for one in found] == [(1, 0.25), (0, 1.0)]
    assert found[0].differences == (("a", 0.0, 1.0),)
    assert found[1].differences == (("b", 0.0, 10.0),)


def by_looking(rows: Floats, answers: Floats, case: Floats, k: int) -> list[int]:
    every = np.vstack([rows, case])
    low, width = every.min(axis=0), np.ptp(every, axis=0)
    scaled = (every - low) / np.where(width > 0, width, 1)
    away = np.sqrt(((scaled[:-1] - scaled[-1]) ** 2).sum(axis=1))
    return sorted(np.flatnonzero(answers == 1), key=lambda row: (round(away[row], 12), row))[:k]


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_pr_10_they_are_those_that_looking_at_every_row_finds(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.integers(0, 4, (30, 3)).astype(float)  # many are as far as each other
    answers = np.r_[np.ones(5), random.integers(0, 2, 25)]
    case = random.integers(0, 4, 3).astype(float)
    found = nearest(named("abc"), rows, answers, case, 1.0, k)
    assert [one.row for one in found] == by_looking(rows, answers, case, k)
    assert all(answers[one.row] == 1 for one in found)
    away = [round(one.distance, 12) for one in found]
    assert away == sorted(away)


def test_categories_are_all_as_far_from_each_other_and_missing_is_far_from_known() -> None:
    features = (Feature("owner", ("a", "b", "c")), Feature("load"))
    rows = np.array([[2.0, 1.0], [1.0, 1.0], [0.0, np.nan], [0.0, 3.0]])
    found = nearest(features, rows, np.ones(4), np.array([0.0, 1.0]), 1.0, 4)
    # Two categories are 1 apart, as are the ends of a range. What is missing counts as the least, and 1 more.
    assert [one.distance for one in found] == pytest.approx([1.0, 1.0, 1.0, 1.0])
    assert found[0].differences == (("owner", 0.0, 2.0),)


@pytest.mark.parametrize("k", [0, 3])
def test_more_neighbours_than_rows_with_that_answer_are_refused(k: int) -> None:
    sentence = rf"^k: {k} is not accepted, must be from 1 to 2, the rows whose answer is 1$"
    with pytest.raises(ValueError, match=sentence):
        nearest(named("a"), np.zeros((3, 1)), np.array([1.0, 1.0, 0.0]), np.zeros(1), 1.0, k)
