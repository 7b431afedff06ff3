"""The family is chosen by what is required, and where nobody meets it the nearest is named."""

from __future__ import annotations

import re

import pytest
from coadapt.estimators.interpretable.additive import AdditiveModel
from coadapt.estimators.interpretable.additive_fit import AdditiveSettings
from coadapt.estimators.interpretable.choice import Measured, Requirement, best_of, chosen, microseconds
from coadapt.estimators.interpretable.corrections import Model
from coadapt.estimators.interpretable.search import Found, Trial
from coadapt.estimators.interpretable.table import Table
from coadapt.estimators.interpretable.tree import TreeModel
from coadapt.estimators.interpretable.tree_fit import fit
from coadapt.estimators.interpretable.tuning import Searching, Tuned, tuned_additive, tuned_tree

from tests.support.interpretable import additive, table

QUICK = AdditiveSettings(bins=16, pair_bins=8, interactions=2, bags=1, rounds=300)
FAMILIES = {
    "tree": tuned_tree,
    "additive": lambda of, how: tuned_additive(of, how, QUICK),
}


def slow_sums(model: Model, _: Table) -> float:
    """Say that a sum takes ten times as long as a tree."""
    return 10.0 if isinstance(model, AdditiveModel) else 1.0


def test_pr_18_a_limit_below_the_time_of_a_sum_takes_the_tree_and_without_limit_the_better_sum_is_taken() -> None:
    of, how = table(400), Searching(budget=2)
    better = chosen(of, None, how, families=FAMILIES)
    faster = chosen(of, Requirement(microseconds=5.0), how, families=FAMILIES, measure=slow_sums)
    assert isinstance(better.tuned.model, AdditiveModel)
    assert isinstance(faster.tuned.model, TreeModel)
    assert better.performance > faster.performance + 0.01


def measured(family: str, performance: float, microseconds: float = 1.0) -> Measured:
    model: Model = additive() if family == "additive" else fit(table(20))
    return Measured(
        family, Tuned(model, performance, Found((Trial({}, 0.0),))), performance, microseconds, 100.0, 1.0
    )


def test_of_two_as_good_the_tree_is_taken() -> None:
    pair = [measured("additive", 0.905), measured("tree", 0.9)]
    assert best_of(pair, Requirement()).family == "tree"
    assert best_of(pair, Requirement(performance=0.901)).family == "additive"


def test_where_nobody_meets_it_the_nearest_is_named() -> None:
    pair = [measured("additive", 0.95, 3.0), measured("tree", 0.9, 1.0)]
    sentence = "requirement: nobody meets it; the nearest is additive: performance 0.99, and 0.95 can be met"
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        best_of(pair, Requirement(performance=0.99))
    with pytest.raises(ValueError, match=r"the nearest is tree: microseconds 0\.5, and 1 can be met$"):
        best_of(pair, Requirement(microseconds=0.5))


def test_three_classes_leave_the_tree_and_times_are_measured() -> None:
    of = table(200, classes=("a", "b", "c"))
    found = chosen(of, None, Searching(budget=2))
    assert (found.family, found.tuned.model.classes) == ("tree", ("a", "b", "c"))
    assert found.microseconds > 0
    assert found.bytes > 100
    assert microseconds(additive(), Table(additive().features, of.rows[:, :3], of.target)) > 0


def test_bounds_that_nothing_can_meet_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^fit_s: 0 is not accepted, must be above 0$"):
        Requirement(fit_s=0)
