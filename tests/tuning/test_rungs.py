"""Who stops at a rung: the worse ones, NaN always, equals by number."""

from __future__ import annotations

import math

import pytest
from coadapt.tuning.rungs import (
    asha_stops,
    best_first,
    bracket_of,
    brackets,
    expected_epochs,
    goodness,
    halving_keeps,
    levels,
    shares,
)


def test_a_trial_is_expected_to_train_less_the_more_rungs_are_ahead() -> None:
    assert expected_epochs(0, 27, [3, 9], 3) == 3 + 6 / 3 + 18 / 9
    assert expected_epochs(3, 27, [3, 9], 3) == 6 + 18 / 3
    assert expected_epochs(9, 27, [3, 9], 3) == 18
    assert expected_epochs(4, 10, [], 3) == 6


def test_rungs_are_those_of_the_thesis() -> None:
    assert levels(3, 3, 100) == [3, 9, 27, 81]
    assert levels(1, 3, 9) == [1, 3]
    assert levels(5, 2, 5) == []


def test_a_third_of_a_group_goes_on() -> None:
    metrics = {i: float(i) for i in range(9)}
    assert asha_stops(range(9), metrics, 3, "max") == [0, 1, 2, 3, 4, 5]
    assert asha_stops(range(9), metrics, 3, "min") == [3, 4, 5, 6, 7, 8]


def test_a_trial_alone_goes_on_and_a_later_one_is_compared_with_it() -> None:
    assert asha_stops([0], {0: 0.5}, 3, "max") == []
    assert asha_stops([1], {0: 0.5, 1: 0.4}, 3, "max") == [1]
    assert asha_stops([1], {0: 0.5, 1: 0.6}, 3, "max") == []


def test_a_trial_without_a_finite_metric_stops() -> None:
    assert asha_stops([0, 1], {0: math.nan, 1: 0.1}, 3, "max") == [0]
    assert asha_stops([0], {0: None}, 3, "max") == [0]
    assert asha_stops([0, 1], {0: math.inf, 1: None}, 3, "min") == [0, 1]


def test_equal_trials_all_go_on() -> None:
    assert asha_stops(range(4), dict.fromkeys(range(4), 0.1), 3, "max") == []


def test_halving_keeps_the_best_and_of_equals_the_first() -> None:
    assert halving_keeps({0: 0.1, 1: 0.3, 2: 0.3, 3: 0.3, 4: None, 5: 0.0}, 3, "max") == [1, 2]
    assert halving_keeps({0: 0.2, 1: 0.1}, 3, "min") == [1]
    assert halving_keeps({0: None, 1: math.nan}, 3, "min") == []


def test_nan_is_the_worst_either_way() -> None:
    metrics = {0: math.nan, 1: 2.0, 2: 1.0, 3: None}
    assert best_first(metrics, "max") == [1, 2, 0, 3]
    assert best_first(metrics, "min") == [2, 1, 0, 3]
    assert goodness(-math.inf, "min") == -math.inf


def test_hyperband_has_a_bracket_that_stops_none_and_spends_the_trials() -> None:
    found = brackets("hyperband", 100, 1, 3, 9)
    assert sum(one.trials for one in found) == 100
    assert [one.ends for one in found] == [(1, 3, 9), (3, 9), (9,)]
    assert found[0].trials > found[1].trials > found[2].trials
    assert [bracket_of(i, found) for i in (0, found[0].trials, 99)] == [0, 1, 2]
    assert brackets("halving", 10, 1, 3, 9)[0].ends == (1, 3, 9)
    assert brackets("asha", 10, 1, 3, 9) == []


def test_a_trial_beyond_all_brackets_is_refused() -> None:
    with pytest.raises(ValueError, match="no bracket has a trial 5"):
        bracket_of(10, brackets("halving", 5, 1, 3, 9))


def test_shares_sum_to_all_by_largest_remainders() -> None:
    assert shares([1, 2, 4], 7) == [1, 2, 4]
    assert shares([1, 1, 1], 4) == [2, 1, 1]
    assert shares([5, 3], 0) == [0, 0]
