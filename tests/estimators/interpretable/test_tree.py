"""Trees: hand-worked pruning, pruning against every subtree there is, rules, paths and whole thresholds."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import numpy as np
import pytest
from coadapt.estimators.interpretable import tree_fit
from coadapt.estimators.interpretable.table import Table, named
from coadapt.estimators.interpretable.tree import TreeModel
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

from tests.support.interpretable import table, tree


def by_hand() -> TreeModel:
    """Return the tree of PR-03: of 100 rows the root is wrong on 50, its children on 5, the right leaves on 1."""
    return tree(
        [(0, 1.5, 1, 2), (-1, 0, -1, -1), (0, 3.5, 3, 4), (-1, 0, -1, -1), (-1, 0, -1, -1)],
        [0.50, 0.05, 0.05, 0.01, 0.01],
        [0, 1, 2, 3, 4],
    )


@pytest.mark.parametrize(
    ("alpha", "leaves"), [(0.0, 3), (0.029, 3), (0.031, 2), (0.05, 2), (0.399, 2), (0.401, 1)]
)
def test_pr_03_the_hand_worked_tree_is_pruned_at_the_prices_worked_out(alpha: float, leaves: int) -> None:
    found = by_hand().pruned(alpha)
    assert found.leaves == leaves
    if alpha == 0.05:
        cost = found.costs[found.feature < 0].sum() + alpha * found.leaves
        assert cost == pytest.approx(0.20)


def test_pr_03_the_prices_of_the_hand_worked_tree() -> None:
    assert [(step.alpha, step.leaves) for step in by_hand().path()] == [
        (pytest.approx(0.03), 2),
        (pytest.approx(0.40), 1),
    ]


def prunings(of: TreeModel, node: int = 0) -> Iterator[frozenset[int]]:
    """Yield the leaves of every tree that pruning can make."""
    yield frozenset({node})
    if of.left[node] >= 0:
        for left, right in itertools.product(
            list(prunings(of, int(of.left[node]))), list(prunings(of, int(of.right[node])))
        ):
            yield left | right


@given(st.integers(0, 100_000), st.sampled_from(["error", "impurity"]))
def test_pruning_finds_the_smallest_of_the_cheapest_of_all_trees(seed: int, cost: str) -> None:
    random = np.random.default_rng(seed)
    rows = random.integers(0, 4, (14, 2)).astype(float)
    of = Table(named("ab"), rows, np.r_[0.0, 1.0, random.integers(0, 2, 12)], "y", ("no", "yes"))
    grown = tree_fit.grow(of, cost=cost, seed=0)  # type: ignore[arg-type]
    every = list(prunings(grown))
    for alpha in (0.0, *(step.alpha * factor for step in grown.path() for factor in (0.999, 1.001))):
        price = {leaves: sum(grown.costs[n] for n in leaves) + alpha * len(leaves) for leaves in every}
        least = min(price.values())
        smallest = min(len(leaves) for leaves in every if price[leaves] <= least + 1e-12)
        found = grown.pruned(alpha)
        assert found.costs[found.feature < 0].sum() + alpha * found.leaves == pytest.approx(least, abs=1e-12)
        assert found.leaves == smallest


def test_pr_04_along_the_path_leaves_become_fewer_and_prices_rise_as_scikit_learns_do() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    of = Table(named([f"f{i}" for i in range(x.shape[1])]), x, y.astype(float), "y", ("bad", "good"))
    grown = tree_fit.grow(of, cost="impurity")
    theirs = DecisionTreeClassifier(random_state=0).cost_complexity_pruning_path(x.astype(np.float32), y)
    steps = grown.path()
    assert steps[-1].leaves == 1
    assert all(one.leaves > two.leaves and one.alpha < two.alpha for one, two in itertools.pairwise(steps))
    assert steps[-1].alpha == pytest.approx(theirs.ccp_alphas[-1])
    for alpha in (theirs.ccp_alphas[1:-1] + theirs.ccp_alphas[2:]) / 2:
        other = DecisionTreeClassifier(random_state=0, ccp_alpha=alpha).fit(x.astype(np.float32), y)
        assert grown.pruned(alpha).leaves == other.get_n_leaves()


def test_a_tree_says_what_the_library_says_with_missing_values_too() -> None:
    of = table(500, classes=("low", "middle", "high"))
    ours = tree_fit.fit(of, cost="impurity", least_rows=5)
    theirs = DecisionTreeClassifier(random_state=0, min_samples_leaf=5).fit(of.rows.astype(np.float32), of.target)
    assert (ours.predict(of.rows) == theirs.predict(of.rows)).all()
    assert ours.probabilities(of.rows) == pytest.approx(theirs.predict_proba(of.rows))
    assert ours.importances() == sorted(ours.importances(), key=lambda one: -one[1])
    assert dict(ours.importances()) == pytest.approx(
        dict(zip([one.name for one in of.features], theirs.feature_importances_, strict=True))
    )


def test_pr_05_complexity_is_leaves_times_depth_and_that_of_a_root_is_finite() -> None:
    grown = by_hand()
    assert (grown.leaves, grown.depth, grown.complexity) == (3, 2, 6)
    assert grown.pruned(1.0).complexity == 0


def test_pr_11_a_tree_of_35_leaves_has_69_nodes() -> None:
    grown = tree_fit.grow(table(3000), least_rows=3)
    for step in grown.path():
        found = grown.pruned(step.alpha)
        assert found.nodes == 2 * found.leaves - 1
        if found.leaves <= 35:
            break
    assert 31 * 256 + 256 + 256 * 2 + 2 == 8706  # the net that the text compares with


def test_pr_16_whole_thresholds_decide_whole_rows_alike() -> None:
    random = np.random.default_rng(0)
    rows = random.integers(0, 60, (500, 3)).astype(float)
    of = Table(named("abc"), rows, rows[:, 0] * 2 + (rows[:, 1] > 30) + random.normal(size=500), "y")
    grown = tree_fit.fit(of)
    whole = grown.quantised()
    fresh = random.integers(-5, 80, (2000, 3)).astype(float)
    assert (whole.threshold == np.floor(whole.threshold)).all()
    assert (whole.predict(fresh) == grown.predict(fresh)).all()


def test_values_far_from_zero_and_near_to_each_other_are_told_apart() -> None:
    times_s = 1.6e9 + np.arange(40.0)  # single precision knows every 128th of these
    of = Table(named(["at_s", "gap"]), np.column_stack([times_s, np.full(40, np.nan)]), np.arange(40) % 2.0, "y")
    grown = tree_fit.fit(of)
    assert (grown.predict(of.rows) == of.target).all()
    assert (grown.quantised().predict(of.rows) == of.target).all()


def test_values_too_large_for_a_tree_are_named() -> None:
    of = Table(named(["a"]), np.array([[1.0], [-1e300]]), np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match=r"^a: 1e\+300 is too large for a tree; at most 1e38 is accepted$"):
        tree_fit.fit(of)


def test_pr_17_two_trees_with_one_seed_are_the_same() -> None:
    of = table()
    first, second = (tree_fit.fit(of, 1e-3, seed=4) for _ in range(2))
    assert (first.threshold == second.threshold).all()
    assert (first.predict(of.rows) == second.predict(of.rows)).all()


def test_each_row_meets_the_conditions_of_one_rule_and_its_path_ends_with_the_answer() -> None:
    of = table(300)
    grown = tree_fit.fit(of, 0.05)
    rules = {rule.leaf: rule for rule in grown.rules()}
    assert len(rules) == grown.leaves
    known = of.rows[~np.isnan(of.rows).any(axis=1)]
    for row, leaf in zip(known, grown.leaves_of(known), strict=True):
        values: dict[str, object] = dict(zip([one.name for one in of.features], row, strict=True))
        values["owner"] = of.features[2].categories[int(row[2])]
        for text in rules[leaf].conditions:
            if text.startswith("owner"):
                assert str(values["owner"]) in text
            elif not text.endswith("known"):
                assert eval(text, {}, values), text
        steps, answer = grown.explain(row)
        assert answer == rules[leaf].answer
        assert len(steps) <= grown.depth
    assert sum(rule.rows for rule in rules.values()) == len(of.rows)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"alpha": -1.0}, "alpha: -1.0 is not accepted, must be 0 or more"),
        ({"cost": "error"}, "cost: error is of classes, and the target has none; impurity is accepted"),
        ({"cost": "gain"}, "cost: 'gain' is not accepted, must be error or impurity"),
        ({"least_rows": 0}, "least_rows: 0 is not accepted, must be a whole number of at least 1"),
    ],
)
def test_arguments_that_make_no_tree_are_refused(arguments: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        tree_fit.fit(table(), **arguments)


def test_arrays_that_are_no_tree_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^tree: a child does not stand behind its one parent$"):
        tree([(0, 1.5, 1, 1), (-1, 0, -1, -1)], [0, 0], [0, 0])
    with pytest.raises(ValueError, match=r"^tree: a number is not finite$"):
        tree([(-1, 0, -1, -1)], [np.inf], [0])
