"""Boosted trees are the same for the same rows and seed, and survive a file."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from coadapt.estimators import boosted
from coadapt.estimators.boosted import Trees


def fitted(seed: int = 0) -> Trees:
    random = np.random.default_rng(1)
    rows = random.normal(size=(400, 3))
    rows[:, 2] = random.integers(0, 4, 400)
    target = rows[:, 0] + 10.0 * rows[:, 2]
    settings = {"objective": "regression", "num_leaves": 7, "bagging_fraction": 0.5, "bagging_freq": 1}
    return boosted.fit(rows, target, settings=settings, trees=30, seed=seed, categorical=[2])


def test_a_fit_depends_on_its_rows_and_its_seed_alone() -> None:
    assert fitted().text == fitted().text
    assert fitted().text != fitted(seed=1).text


def test_trees_learn_codes_and_survive_their_text() -> None:
    trees = Trees(fitted().text).checked(3)
    low, high = trees.predict(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 3.0]]))
    assert low < 12 < 20 < high


@pytest.mark.parametrize("text", ["", "tree\ntorn", "no model"])
def test_a_torn_model_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="trees: are no LightGBM model"):
        Trees(text).checked(3)


def test_a_model_of_other_features_is_refused() -> None:
    with pytest.raises(ValueError, match="trees: have 3 features, and 5 are accepted"):
        fitted().checked(5)


def test_without_lightgbm_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    text = fitted().text
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    boosted._library.cache_clear()
    for use in (lambda: Trees(text).predict(np.zeros((1, 3))), fitted):
        with pytest.raises(ValueError, match="trees: LightGBM cannot be loaded: ") as told:
            use()
        assert "\n" not in str(told.value)


def test_no_rows_and_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="0 rows"):
        boosted.fit(np.zeros((0, 1)), np.zeros(0), settings={}, trees=1, seed=0)
    with pytest.raises(ValueError, match="not finite"):
        boosted.fit(np.zeros((2, 1)), np.array([1.0, np.nan]), settings={}, trees=1, seed=0)
