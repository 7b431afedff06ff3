"""The search finds what is best, the same for one seed, and judges by rows that are newer than those fitted."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from coadapt.estimators.interpretable.additive_fit import AdditiveSettings
from coadapt.estimators.interpretable.search import (
    Dimension,
    Point,
    expected_improvement,
    folds,
    score,
    search,
)
from coadapt.estimators.interpretable.tree import TreeModel
from coadapt.estimators.interpretable.tuning import Searching, performance, tuned_additive, tuned_tree
from scipy.stats import norm

from tests.support.interpretable import table

ALPHA = (Dimension("alpha", 1e-8, 1e-1, log=True),)


def around_a_thousandth(point: Point) -> float:
    return -((math.log10(point["alpha"]) + 3) ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_pr_07_fifteen_trials_find_the_best_price(seed: int) -> None:
    found = search(around_a_thousandth, ALPHA, 15, seed=seed)
    assert 9e-4 < found.best.point["alpha"] < 1.1e-3
    assert len(found.trials) == 15
    assert search(around_a_thousandth, ALPHA, 15, seed=seed).trials == found.trials


def test_it_needs_fewer_trials_than_chance() -> None:
    space = (Dimension("a", 0, 1), Dimension("b", 0, 1))

    def hill(point: Point) -> float:
        return -((point["a"] - 0.3) ** 2) - (point["b"] - 0.8) ** 2

    ours = [search(hill, space, 15, seed=seed).best.score for seed in range(3)]
    chance = [search(hill, space, 15, seed=seed, chance=True).best.score for seed in range(3)]
    assert np.mean(ours) > np.mean(chance) / 10


def test_trials_beside_each_other_are_as_many_and_repeatable() -> None:
    one, two = (search(around_a_thousandth, ALPHA, 12, seed=1, at_once=3) for _ in range(2))
    assert one.trials == two.trials
    assert len(one.trials) == 12
    assert abs(math.log10(one.best.point["alpha"]) + 3) < 0.3


def test_known_settings_are_tried_first_and_whole_ones_are_whole() -> None:
    space = (Dimension("bins", 2, 256, log=True, whole=True), Dimension("rate", 0.1, 1.0))
    found = search(lambda point: -point["bins"], space, 8, known=[{"bins": 256, "rate": 0.5}])
    assert found.trials[0].point == {"bins": 256.0, "rate": pytest.approx(0.5)}
    assert all(trial.point["bins"].is_integer() and 0.1 <= trial.point["rate"] <= 1 for trial in found.trials)


def test_pr_05_and_06_of_two_as_good_the_smaller_wins_and_a_root_alone_is_finite() -> None:
    assert score(0.9, 7 * 4, 0.01) < score(0.9, 2, 0.01) < score(0.9, 0, 0.01) == 0.9
    assert score(0.8, 640, 0.0) == 0.8 < score(0.9, 10**6, 0.0)
    assert score(1.0, 28, 0.5, 1.0) == 1 - 14


def test_expected_improvement_is_that_of_the_text() -> None:
    found = expected_improvement(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.0, 1.0]), 2.0)
    assert found[1] == 0
    for at, mean, deviation in ((0, 1.0, 0.5), (2, 3.0, 1.0)):
        draws = norm.ppf((np.arange(100_000) + 0.5) / 100_000) * deviation + mean
        assert found[at] == pytest.approx(np.maximum(draws - 2.0, 0).mean(), rel=1e-3)


def test_what_judges_is_newer_than_what_is_fitted() -> None:
    of = table(100, times=True)
    of = replace(of, times_s=of.times_s[::-1])  # type: ignore[index]
    for taught, held in folds(of, 3):
        assert of.times_s[taught].max() < of.times_s[held].min()  # type: ignore[index]
    held = [held for _, held in folds(table(100), 4)]
    assert sorted(np.concatenate(held).tolist()) == list(range(100))


def test_a_tuned_tree_says_rows_better_that_it_has_not_seen_and_lambda_makes_it_smaller() -> None:
    of = table(300, classes=("short", "long"))
    noisy = replace(
        of, target=np.where(np.random.default_rng(0).uniform(size=300) < 0.25, 1 - of.target, of.target)
    )
    fresh = table(1000, seed=5, classes=("short", "long"))
    plain = tuned_tree(noisy, Searching(budget=1)).model
    tuned = tuned_tree(noisy, Searching(budget=15)).model
    small = tuned_tree(noisy, Searching(budget=15, lambda_=0.02)).model
    assert performance(tuned, fresh) > performance(plain, fresh) + 0.05
    assert isinstance(tuned, TreeModel)
    assert isinstance(small, TreeModel)
    assert isinstance(plain, TreeModel)
    assert small.complexity <= tuned.complexity < plain.complexity / 4


def test_a_tuned_sum_is_no_worse_in_its_folds_than_where_it_started() -> None:
    start = AdditiveSettings(bins=8, pair_bins=4, interactions=0, bags=1, rounds=60)
    found = tuned_additive(table(150), Searching(budget=6), start).found
    assert found.best.score >= found.trials[0].score
    assert found.trials[0].point["interactions"] == 0


def _budget() -> None:
    Searching(budget=0)


def _lambda() -> None:
    Searching(lambda_=-0.1)


def _not_finite() -> None:
    search(lambda _: math.nan, ALPHA, 3)


def _threads() -> None:
    search(around_a_thousandth, ALPHA, 3, at_once=0)


def _ends() -> None:
    Dimension("alpha", 0, 1, log=True)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (_budget, "budget: 0 is not accepted, must be a whole number of at least 1"),
        (_lambda, "lambda, gamma: -0.1, 0.5 are not accepted, must be 0 or more"),
        (_threads, "at_once: 0 is not accepted, must be a whole number of at least 1"),
        (_ends, "alpha: 0 to 1 is not accepted, must be in ascending order"),
    ],
)
def test_searches_that_cannot_be_are_refused(what: object, sentence: str) -> None:
    assert callable(what)
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        what()


def test_a_score_that_is_none_is_told() -> None:
    with pytest.raises(ValueError, match=r"^score: nan of .* is not accepted, must be finite$"):
        _not_finite()
