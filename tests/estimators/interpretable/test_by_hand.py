"""Scores and answers set by hand: they hold in their box, nothing else changes, and the next fit keeps them."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from coadapt.estimators.interpretable import additive_fit, corrections, tree_fit
from coadapt.estimators.interpretable.additive_fit import AdditiveSettings
from coadapt.estimators.interpretable.corrections import ByHand, Monotone, corrected
from coadapt.estimators.interpretable.model_file import Kept
from hypothesis import given
from hypothesis import strategies as st

from tests.support.interpretable import additive, rows, table


@given(st.integers(0, 5000), st.integers(0, 6), st.integers(0, 6))
def test_a_score_holds_in_its_range_and_nowhere_else(seed: int, one: int, two: int) -> None:
    model, asked = additive(seed), rows(100, seed)
    low, high = float(min(one, two)), float(max(one, two))
    found = corrected(model, [ByHand({"gpus": (low, high)}, 7.5)])
    within = (asked[:, 1] >= low) & (asked[:, 1] <= high)
    before, after = model.contributions(asked), found.contributions(asked)
    assert (after[within, 1] == 7.5).all()
    assert (after[~within, 1] == before[~within, 1]).all()
    assert (np.delete(after, 1, axis=1) == np.delete(before, 1, axis=1)).all()
    assert found.terms[1].counts.sum() == pytest.approx(model.terms[1].counts.sum())


def test_a_score_of_a_category_of_what_is_missing_and_of_a_pair() -> None:
    model = additive()
    found = corrected(model, [ByHand({"owner": "bob"}, 1.0), ByHand({"load": "missing"}, 2.0)])
    after = found.contributions(np.array([[np.nan, 1.0, 1.0], [0.0, 1.0, 0.0]]))
    assert (after[0, 2], after[0, 0]) == (1.0, 2.0)
    assert after[1, 2] == model.terms[2].scores[1]
    pair = corrected(model, [ByHand({"owner": "alice", "load": (-math.inf, math.inf)}, 3.0)])
    owners = np.array([[0.3, 1.0, 0.0], [0.3, 1.0, 1.0]])
    assert pair.contributions(owners)[0, 4] == 3.0
    assert pair.contributions(owners)[1, 4] == model.contributions(owners)[1, 4]


@given(st.integers(0, 300), st.floats(-2, 2), st.floats(-2, 2), st.integers(1, 8), st.integers(1, 8))
def test_a_tree_answers_as_told_within_the_box_and_as_before_outside(
    seed: int, a: float, b: float, one: int, two: int
) -> None:
    of = table(120, seed)
    grown = tree_fit.fit(of, 0.01)
    box = {"load": (min(a, b), max(a, b)), "gpus": (float(min(one, two)), float(max(one, two)))}
    found = corrected(grown, [ByHand(box, -99.0)])
    asked = np.vstack([of.rows, [[min(a, b), one, 0, 0], [max(a, b), two, 0, 0]]])
    within = np.logical_and.reduce(
        [(asked[:, i] >= box[name][0]) & (asked[:, i] <= box[name][1]) for i, name in enumerate(("load", "gpus"))]
    )
    assert (found.predict(asked)[within] == -99.0).all()
    assert (found.predict(asked)[~within] == grown.predict(asked)[~within]).all()


def test_a_tree_of_classes_answers_a_class_by_name() -> None:
    of = table(200, classes=("short", "long"))
    found = corrected(tree_fit.fit(of), [ByHand({"owner": "carol"}, "long")])
    assert (found.predict(of.rows[of.rows[:, 2] == 2]) == 1).all()


def test_corrections_are_read_as_they_were_written() -> None:
    every = (
        Monotone("gpus", "decreasing", "drop"),
        ByHand({"gpus": (2.0, math.inf), "owner": "bob"}, 1.5),
        ByHand({"load": "missing"}, "long"),
    )
    assert corrections.read(corrections.to_json(every)) == every


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (ByHand({"share": (0, 1)}, 1.0), "feature: 'share' is unknown; the nearest is 'load'"),
        (ByHand({"load": (0, 1), "gpus": (0, 1)}, 1.0), "load and gpus: there is no such term in this model"),
        (ByHand({}, 1.0), "within: there is no such term in this model"),
        (ByHand({"gpus": (2, 1)}, 1.0), "gpus: 2 to 1 is not accepted, must be in ascending order"),
        (ByHand({"gpus": (1.2, 1.8)}, 1.0), "gpus: 1.2 to 1.8 is not accepted, no whole number lies there"),
        (ByHand({"gpus": (1, 2)}, math.nan), "value: nan is not accepted, must be a finite score"),
        (ByHand({"owner": "dave"}, 1.0),
         "owner: 'dave' is no category of it; accepted: alice, bob, carol, missing"),
        (ByHand({"owner": (0, 1)}, 1.0),
         "owner: is a category; a range of it is not accepted, name one of its values"),
    ],
)  # fmt: skip
def test_changes_that_cannot_be_are_refused(change: ByHand, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        corrected(additive(pairs=0), [change])


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (5, "corrections: are no list"),
        ([3], "corrections: 3 is none; accepted: monotone with direction, or within with value"),
        ([{"monotone": "x", "direction": "up"}],
         "direction: 'up' is not accepted, must be increasing or decreasing"),
        ([{"within": {"x": [1]}, "value": 1}],
         "x: [1] is not accepted, must be [lowest, highest], a category or missing"),
        ([{"within": {"x": [1, 2]}, "value": 10**400}],
         "value: a number that is not finite, or larger than 1.8e308, is not accepted"),
        ([{"within": {"x": [1, math.inf]}, "value": 1}],
         "x: a number that is not finite, or larger than 1.8e308, is not accepted"),
        ([{"within": {"x": [1, 2]}, "value": True}], "value: True is not accepted, must be a number or a class"),
    ],
)  # fmt: skip
def test_documents_that_are_no_corrections_are_refused(document: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        corrections.read(document)


def test_what_a_fit_has_no_place_for_waits_for_one_that_has() -> None:
    changes = [ByHand({"owner": "dave"}, 1.0), ByHand({"load": (0, 1), "gpus": (0, 1)}, 1.0), Monotone("gpus")]
    small = additive(pairs=0)
    found = corrected(small, changes, "wait")
    assert found.terms[2] is small.terms[2]
    assert (found.terms[1].scores != small.terms[1].scores).any()
    kept = Kept(small, tuple(changes))
    assert kept.waiting == tuple(changes[:2])
    owners = (*small.features[:2], replace(small.features[2], categories=("alice", "bob", "dave")))
    later = Kept(replace(small, features=owners), tuple(changes))
    assert later.waiting == (changes[1],)
    assert later.model.contributions(np.array([[0.0, 1.0, 2.0]]))[0, 2] == 1.0
    grown = tree_fit.fit(table(200, classes=("short", "long")))
    assert Kept(grown, (ByHand({"gpus": (1, 2)}, "middle"),)).model.leaves == grown.leaves


def test_a_refit_with_fewer_bins_keeps_what_was_set_by_hand() -> None:
    changes = [ByHand({"gpus": (2, 3)}, 7.5), ByHand({"load": (0.25, 0.5)}, -1.0), ByHand({"owner": "bob"}, 2.0)]
    for bins in (64, 4, 2):
        quick = AdditiveSettings(bins=bins, pair_bins=2, interactions=0, bags=1, rounds=30)
        found = corrected(additive_fit.fit(table(300), quick, tails=None), changes)
        apart = found.contributions(np.array([[0.25, 2.0, 1.0, 0.0], [0.5, 3.0, 1.0, 0.0], [0.6, 4.0, 0.0, 0.0]]))
        assert (apart[:2, :3] == [-1.0, 7.5, 2.0]).all()
        assert (apart[2, :3] != [-1.0, 7.5, 2.0]).all()


def test_an_answer_that_a_tree_cannot_give_is_refused() -> None:
    of = table(200, classes=("short", "long"))
    with pytest.raises(ValueError, match=r"^value: 'middle' is no class; accepted: short, long$"):
        corrected(tree_fit.fit(of), [ByHand({"gpus": (1, 2)}, "middle")])
    with pytest.raises(ValueError, match=r"^load: missing is not accepted for a tree, give a range$"):
        corrected(tree_fit.fit(of), [ByHand({"load": "missing"}, "long")])
