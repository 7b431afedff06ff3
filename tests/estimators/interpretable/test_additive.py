"""Additive models: a prediction is the mean and one score per term, exactly, whatever is missing."""

from __future__ import annotations

import re

import numpy as np
import pytest
from coadapt.estimators.interpretable import additive_fit
from coadapt.estimators.interpretable.additive import AdditiveModel, Term
from coadapt.estimators.interpretable.additive_fit import AdditiveSettings
from coadapt.estimators.interpretable.table import Feature, Table, named, position
from hypothesis import given
from hypothesis import strategies as st

from tests.support.interpretable import additive, rows, table

QUICK = AdditiveSettings(bins=32, pair_bins=8, interactions=2, bags=2, rounds=200)


def slow_scores(model: AdditiveModel, given_rows: np.ndarray) -> np.ndarray:
    """Return what the model says, by looking at every edge of every term."""
    found = []
    for row in given_rows:
        total = model.mean
        for term in model.terms:
            place = []
            for feature, edges in zip(term.features, term.edges, strict=True):
                value, codes = row[feature], len(model.features[feature].categories)
                unknown = np.isnan(value) or (codes > 0 and not 0 <= value < codes)
                place.append(0 if unknown else 1 + sum(edge <= value for edge in edges))
            total += term.scores[tuple(place)]
        found.append(total)
    return np.array(found)


@given(st.integers(0, 10_000), st.integers(0, 2))
def test_the_compiled_look_up_says_what_every_edge_says_to_the_bit(seed: int, pairs: int) -> None:
    model, asked = additive(seed, pairs), rows(40, seed)
    for term in model.terms[:2]:
        asked[: len(term.edges[0]), term.features[0]] = term.edges[0]  # values that equal an edge
    assert (model.scores(asked) == slow_scores(model, asked)).all()


def test_pr_01_mean_and_scores_in_order_are_the_prediction_to_the_bit() -> None:
    model, asked = additive(), rows(2000)
    apart = model.contributions(asked)
    total = np.full(len(asked), model.mean)
    for column in apart.T:
        total += column
    assert (total == model.predict(asked)).all()
    assert abs(model.mean + apart.sum(axis=1) - model.predict(asked)).max() < 1e-9


def test_pr_01_of_two_classes_the_sum_is_the_log_of_the_odds() -> None:
    model, asked = additive(link="logit"), rows()
    chance = model.predict(asked)
    assert np.log(chance / (1 - chance)) == pytest.approx(model.mean + model.contributions(asked).sum(axis=1))
    assert (model.classified(asked) == (chance > 0.5)).all()


def test_a_fit_says_what_the_library_says() -> None:
    from interpret.glassbox import ExplainableBoostingRegressor

    of = table()
    ours = additive_fit.fit(of, QUICK, seed=3, tails=None)
    theirs = ExplainableBoostingRegressor(
        feature_names=[one.name for one in of.features],
        feature_types=["nominal" if one.categories else "continuous" for one in of.features],
        max_bins=34, max_interaction_bins=10, interactions=2, outer_bags=2, max_rounds=200, greedy_ratio=0,
        smoothing_rounds=0, interaction_smoothing_rounds=0, random_state=3, n_jobs=1,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="Missing values"):
        theirs.fit(of.rows, of.target)
    assert ours.predict(of.rows) == pytest.approx(theirs.predict(of.rows), abs=1e-9)


def test_pr_02_the_mean_is_that_of_the_target() -> None:
    of = table()
    assert additive_fit.fit(of, QUICK, tails=None).mean == pytest.approx(of.target.mean(), abs=1e-9)


def test_two_bins_are_enough_for_a_fit() -> None:
    model = additive_fit.fit(table(100), AdditiveSettings(bins=2, pair_bins=2, bags=1, rounds=20), tails=None)
    assert all(len(edges) <= 2 for term in model.terms for edges in term.edges)


def test_pr_17_two_fits_with_one_seed_are_the_same() -> None:
    of = table()
    first, second = (additive_fit.fit(of, QUICK, seed=5) for _ in range(2))
    assert (first.predict(of.rows) == second.predict(of.rows)).all()
    assert first.band == second.band


def test_pr_20_missing_values_and_unknown_categories_have_a_bin_of_their_own() -> None:
    model = additive()
    missing = model.contributions(np.full((1, 3), np.nan))[0]
    assert missing == pytest.approx([term.scores[(0,) * term.scores.ndim] for term in model.terms])
    assert model.contributions(np.array([[0.0, 1.0, 7.0]]))[0][2] == model.terms[2].scores[0]


def test_a_band_holds_four_of_five_rows_that_no_fit_has_seen() -> None:
    of, fresh = table(1500, times=True), table(1500, seed=9)
    model = additive_fit.fit(of, QUICK)
    low, high = model.bands(fresh.rows)
    assert 0.7 < float(((low <= fresh.target) & (fresh.target <= high)).mean()) < 0.9


def test_two_classes_are_told_apart() -> None:
    of = table(800, classes=("short", "long"))
    model = additive_fit.fit(of, QUICK)
    assert (model.classified(of.rows) == of.target).mean() > 0.9
    assert model.band is None


def test_an_explanation_adds_up_and_names_categories() -> None:
    model = additive()
    found = model.explain(np.array([0.1, 2.0, 1.0]))
    assert found.total == pytest.approx(found.mean + sum(score for _, _, score in found.parts))
    assert ("owner", "bob") in [(name, shown) for name, shown, _ in found.parts]
    assert [abs(score) for _, _, score in found.parts] == sorted((abs(s) for _, _, s in found.parts), reverse=True)


def test_importances_are_mean_scores_of_the_fits_rows() -> None:
    of = table(600)
    model = additive_fit.fit(of, QUICK, tails=None)
    by_rows = np.abs(model.contributions(of.rows)).mean(axis=0)
    wanted = {model.name_of(term): value for term, value in zip(model.terms, by_rows, strict=True)}
    for name, value in model.importances():
        # The library counts rows of pairs in coarser bins, so that pairs are alike up to rounding alone.
        assert value == pytest.approx(wanted[name], rel=1e-6)


def test_pr_05_complexity_is_interactions_times_bins() -> None:
    edges = np.arange(63.0)
    one = Term((0,), (edges,), np.zeros(65), np.zeros(65))
    pair = Term((0, 1), (edges[:3], edges[:3]), np.zeros((5, 5)), np.zeros((5, 5)))
    features = named(["a", "b"])
    assert AdditiveModel(features, 0.0, (one, *[pair] * 10)).complexity == 640
    assert AdditiveModel(features, 0.0, (one,)).complexity == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"features": named(["a", "a"])}, "features: 'a' is there twice; each name is accepted once"),
        ({"target": np.empty(0), "rows": np.empty((0, 2))}, "target: is empty; at least two rows are accepted"),
        ({"target": np.full(3, 7.0)}, "target: all 3 rows are 7; two different values are accepted"),
        ({"target": np.array([1, 2, 1e200])}, "target: row 3 is 1e+200; at most 1e+100 is accepted"),
        ({"features": (), "rows": np.zeros((3, 0))}, "features: are none; at least one is accepted"),
        ({"target": np.array([1, np.nan, 2])}, "target: row 2 is not a finite number"),
        ({"target": np.arange(2.0)}, "target: has 2 values for 3 rows"),
        ({"rows": np.zeros((3, 1))}, "rows: are of shape (3, 1), and 2 columns are accepted"),
        (
            {"rows": np.array([[1, 2], [3, np.inf], [1, 1]])},
            "b: an infinite value is not accepted, must be finite or missing",
        ),
        ({"times_s": np.zeros(2)}, "times: are 2 for 3 rows"),
    ],
)
def test_tables_that_teach_nothing_are_refused_in_one_sentence(change: dict, sentence: str) -> None:
    good = {"features": named(["a", "b"]), "rows": np.zeros((3, 2)), "target": np.arange(3.0)}
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        Table(**{**good, **change})


def test_an_unknown_feature_names_the_nearest() -> None:
    features = (Feature("gpus"), Feature("owner"))
    assert position(features, "owner") == position(features, 1) == 1
    with pytest.raises(ValueError, match=r"^feature: 'gpu' is unknown; the nearest is 'gpus'$"):
        position(features, "gpu")
    with pytest.raises(ValueError, match=r"^feature: 2 is not accepted, must be from 0 to 1$"):
        position(features, 2)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"bins": 1}, "bins: 1 is not accepted, must be a whole number of at least 2"),
        ({"interactions": -1}, "interactions: -1 is not accepted, must be a whole number of at least 0"),
        ({"rounds": 0}, "rounds: 0 is not accepted, must be a whole number of at least 1"),
        ({"learning_rate": 0}, "learning_rate: 0 is not accepted, must be above 0 and at most 10"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        AdditiveSettings(**settings)


def test_more_than_two_classes_are_no_matter_of_an_additive_model() -> None:
    with pytest.raises(ValueError, match=r"^hours: an additive model tells two classes apart, not 3$"):
        additive_fit.fit(table(classes=("a", "b", "c")))
