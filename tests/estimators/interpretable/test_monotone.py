"""Pooling adjacent violators, and monotone terms that stay so."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from coadapt.estimators.interpretable import additive_fit
from coadapt.estimators.interpretable.additive import AdditiveModel, Term
from coadapt.estimators.interpretable.additive_fit import AdditiveSettings
from coadapt.estimators.interpretable.corrections import (
    Monotone,
    corrected,
    is_monotone_in,
    undoing_terms,
    with_monotone,
)
from coadapt.estimators.interpretable.monotone import Direction, is_monotone, pooled
from coadapt.estimators.interpretable.table import named
from coadapt.estimators.interpretable.tree_fit import fit as fit_tree
from hypothesis import given
from hypothesis import strategies as st

from tests.support.interpretable import additive, rows, table


@pytest.mark.parametrize(
    ("values", "weights", "wanted"),
    [
        ([1, 3, 2, 4], [1, 1, 1, 1], [1, 2.5, 2.5, 4]),
        ([1, 3, 2, 4], [1, 1, 3, 1], [1, 2.25, 2.25, 4]),
        ([3, 1, 2, 5, 4], [1] * 5, [2, 2, 2, 4.5, 4.5]),
        ([4, 3, 2, 1], [1] * 4, [2.5] * 4),
        ([1, 2, 3], [1] * 3, [1, 2, 3]),
    ],
)
def test_pr_08_hand_worked_poolings(values: list[float], weights: list[float], wanted: list[float]) -> None:
    found = pooled(np.array(values, float), np.array(weights, float))
    assert found == pytest.approx(wanted)
    assert pooled(found, np.array(weights, float)) == pytest.approx(found)
    falling = pooled(-np.array(values, float), np.array(weights, float), "decreasing")
    assert falling == pytest.approx(-np.array(wanted))


def best_of_all(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the least cost of all divisions into blocks whose means rise."""
    least = np.inf
    for ends in itertools.product([False, True], repeat=len(values) - 1):
        blocks = np.cumsum([0, *ends])
        means = [np.average(values[blocks == b], weights=weights[blocks == b]) for b in range(blocks[-1] + 1)]
        if (np.diff(means) >= 0).all():
            least = min(least, float((weights * (values - np.array(means)[blocks]) ** 2).sum()))
    return least


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 9)), min_size=1, max_size=8),
    st.sampled_from(["increasing", "decreasing"]),
)
def test_no_order_of_values_costs_less_than_the_pooled_ones(pairs: list[tuple[int, int]], way: Direction) -> None:
    values, weights = (np.array(column, float) for column in zip(*pairs, strict=True))
    found = pooled(values, weights, way)
    assert is_monotone(found, way)
    cost = float((weights * (values - found) ** 2).sum())
    assert cost == pytest.approx(best_of_all(values if way == "increasing" else -values, weights), abs=1e-9)
    assert np.average(found, weights=weights) == pytest.approx(np.average(values, weights=weights))


def test_pr_09_by_name_and_by_number_are_the_same_and_other_terms_stay_to_the_bit() -> None:
    model = additive(pairs=0)
    by_name, by_number = with_monotone(model, "gpus"), with_monotone(model, 1)
    asked = rows()
    assert (by_name.predict(asked) == by_number.predict(asked)).all()
    for number in (0, 2):
        assert (by_name.terms[number].scores == model.terms[number].scores).all()
    assert is_monotone(by_name.terms[1].scores[1:], "increasing")
    assert not is_monotone(model.terms[1].scores[1:], "increasing")


def test_the_missing_bin_stays_and_the_mean_of_all_rows_stays() -> None:
    model = additive(pairs=0)
    found = with_monotone(model, "load", "decreasing")
    before, after = model.terms[0], found.terms[0]
    assert after.scores[0] == before.scores[0]
    assert found.mean + (after.scores * after.counts).sum() / after.counts.sum() == pytest.approx(
        model.mean + (before.scores * before.counts).sum() / before.counts.sum()
    )


def test_bins_without_rows_follow_their_neighbours() -> None:
    term = Term((0,), (np.arange(3.0),), np.array([0, 1.0, 9.0, 2.0, 3.0]), np.array([0, 5.0, 0.0, 5.0, 5.0]))
    found = with_monotone(AdditiveModel(named("x"), 0.0, (term,)), 0)
    assert found.terms[0].scores[1:] == pytest.approx([1, 2, 2, 3], abs=1e-6)


@given(st.integers(0, 5000), st.sampled_from(["increasing", "decreasing"]))
def test_a_model_whose_undoing_pairs_were_dropped_never_turns_back(seed: int, way: Direction) -> None:
    model = with_monotone(additive(seed), "gpus", way, "drop")
    assert is_monotone_in(model, 1, way)
    asked = np.repeat(rows(30, seed), 9, axis=0)
    asked[:, 1] = np.tile(np.arange(-1, 8), 30)
    steps = np.diff(model.predict(asked).reshape(30, 9), axis=1)
    assert (steps >= -1e-9).all() if way == "increasing" else (steps <= 1e-9).all()


def test_a_pair_that_undoes_nothing_stays() -> None:
    edges = np.arange(3.0)
    alone = Term((0,), (edges,), np.array([0, 0, 5.0, 10.0, 15.0]), np.ones(5))
    mild = Term((0, 1), (edges, edges[:1]), np.random.default_rng(0).uniform(-1, 1, (5, 3)), np.ones((5, 3)))
    wild = Term((0, 1), (edges, edges[:1]), 50 * mild.scores, np.ones((5, 3)))
    assert undoing_terms(AdditiveModel(named("ab"), 0.0, (alone, mild)), 0, "increasing") == []
    model = AdditiveModel(named("ab"), 0.0, (alone, mild, wild))
    assert [term is wild for term in undoing_terms(model, 0, "increasing")] == [True]
    assert corrected(model, [Monotone("a", pairs="drop")]).terms[1] is mild
    assert len(corrected(model, [Monotone("a", pairs="keep")]).terms) == 3


def test_a_correction_applies_to_the_next_fit_as_well() -> None:
    quick = AdditiveSettings(bins=16, pair_bins=4, interactions=2, bags=1, rounds=100)
    change = [Monotone("load", "decreasing", "drop")]
    for seed in (0, 1):
        of = table(300, seed)
        model = corrected(additive_fit.fit(of, quick, tails=None), change)
        assert is_monotone_in(model, 0, "decreasing")


@pytest.mark.parametrize(
    ("which", "way", "pairs", "sentence"),
    [
        ("gpu", "increasing", "drop", "feature: 'gpu' is unknown; the nearest is 'gpus'"),
        (
            "owner",
            "increasing",
            "drop",
            "owner: is a category, which has no order; only features of numbers can be monotone",
        ),
        ("gpus", "up", "drop", "direction: 'up' is not accepted, must be increasing or decreasing"),
        ("gpus", "increasing", "any", "pairs: 'any' is not accepted, must be refuse, drop or keep"),
        (
            "gpus",
            "increasing",
            "refuse",
            "gpus: the pair terms load and gpus would undo it; "
            "pairs: drop takes them out, and keep leaves them in",
        ),
    ],
)
def test_constraints_that_cannot_be_are_refused(which: str, way: str, pairs: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        with_monotone(additive(pairs=1), which, way, pairs)  # type: ignore[arg-type]


def test_a_tree_has_no_terms_to_be_monotone() -> None:
    with pytest.raises(ValueError, match=r"^gpus: a tree has no terms to be monotone; make it an additive model$"):
        corrected(fit_tree(table(100)), [Monotone("gpus")])
