"""Who is promoted, and when a target begins early."""

from __future__ import annotations

import pytest
from coadapt.tuning.transfer import Eager, counts, eager, promoted, replaced


def test_the_best_are_promoted_and_nan_never() -> None:
    assert promoted({0: 0.5, 1: None, 2: 0.9, 3: 0.9}, 3, "max") == [2, 3, 0]
    assert promoted({0: 0.5, 1: None, 2: 0.9}, 5, "min") == [0, 2]
    assert promoted({0: None}, 3, "max") == []


def test_fewer_enter_each_width() -> None:
    assert counts(3, (2, 1)) == [3, 2]
    assert counts(3, (1,)) == [3]
    assert counts(8, (4, 2, 1)) == [8, 4, 2]
    assert counts(3, ()) == []


@pytest.mark.parametrize(
    ("idle", "running", "answer"),
    [
        (1, {}, Eager.BEGIN),
        (0, {}, Eager.WAIT),
        (2, {5: 0.3}, Eager.BEGIN),  # beside it
        (0, {5: 0.3}, Eager.REPLACE),
        (0, {5: 0.6}, Eager.WAIT),  # worth more finished
        (2, {5: 0.9, 6: 0.8, 7: 0.6}, Eager.WAIT),
        (2, {5: 0.9, 6: 0.8, 7: 0.1}, Eager.REPLACE),
    ],
)
def test_a_better_trial_replaces_the_target_or_joins_it(
    idle: int, running: dict[int, float], answer: Eager
) -> None:
    assert eager(idle, running, 3) is answer


def test_the_worst_of_those_before_half_is_replaced() -> None:
    assert replaced({5: 0.9, 6: 0.2, 7: 0.1}, {5: 0.1, 6: 0.2, 7: 0.7}, "max") == 6
    assert replaced({5: 0.9}, {5: 0.7}, "max") is None
