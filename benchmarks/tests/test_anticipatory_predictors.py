"""Scores of what is foretold: of all moments, and of the hours of a team in which jobs came."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.anticipatory_predictors import of_single_hours, scores

CAME = np.array([True, True, True, False, False])
SAID = np.array([True, False, False, True, False])


def test_precision_recall_and_f() -> None:
    found = scores(CAME, SAID)
    assert found == {"precision": 1 / 2, "recall": pytest.approx(1 / 3), "f": pytest.approx(2 / 5)}
    assert math.isnan(scores(~CAME & False, SAID)["recall"])


def test_hours_in_which_nothing_came_do_not_count() -> None:
    at_s = np.arange(0.0, 3 * 3600.0, 1800.0)
    came = np.array([[True, True, False, False, True, False], [False] * 6])
    said = np.array([[True, True, True, True, False, False], [True] * 6])
    assert of_single_hours(came, said, at_s).tolist() == [1.0, 0.0]
