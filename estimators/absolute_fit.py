"""Fits additive models of least absolute errors: boosted trees that ask for one or two features each. Pure.

interpret's boosting knows no absolute error. LightGBM does, and each path of its trees may be held to features
that go together. A leaf whose tests are of one feature is a part of its term, one of two of a pair term. So the
trees are an additive model, exactly. It needs no library beyond those that Coadapt has anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import boosted
from .boosted import Leaf, Trees
from .interpretable.additive import AdditiveModel, Term
from .interpretable.table import Floats, Table, with_whole


@dataclass(frozen=True)
class AbsoluteSettings:
    """How a model is fitted. leaves: of a tree. bins: of a feature, at most."""

    trees: int = 300
    leaves: int = 6
    bins: int = 63
    learning_rate: float = 0.05
    least_rows: int = 100  # of a leaf


def fit(
    table: Table, pairs: Sequence[tuple[int, int]] = (), settings: AbsoluteSettings | None = None, *, seed: int = 0
) -> AdditiveModel:
    """Fit a model to a table of numbers; two fits with one seed are the same.

    Args:
        pairs: positions of features that may have a pair term.

    Raises:
        ValueError: in one sentence, for a target of classes, and for rows of which all are alike.
    """
    if table.classes:
        raise ValueError(f"{table.target_name}: has classes, and numbers are accepted")
    settings = settings or AbsoluteSettings()
    count = len(table.features)
    together = [[one] for one in range(count)] + [list(pair) for pair in pairs]
    trees = boosted.fit(
        table.rows,
        table.target,
        settings={
            "objective": "l1", "learning_rate": settings.learning_rate, "num_leaves": settings.leaves,
            "min_data_in_leaf": settings.least_rows, "max_bin": settings.bins, "bagging_fraction": 0.7,
            "bagging_freq": 1, "feature_fraction": 0.8, "interaction_constraints": together,
        },
        trees=settings.trees,
        seed=seed,
    )  # fmt: skip
    return _as_sum(trees, table)


def _as_sum(trees: Trees, table: Table) -> AdditiveModel:
    """Return trees as one term per feature, or pair of features, that the tests of any leaf are of."""
    by_features = dict[tuple[int, ...], list[Leaf]]()
    edges: list[set[float]] = [set() for _ in table.features]
    for leaf in trees.leaves():
        by_features.setdefault(tuple(sorted({test.feature for test in leaf.tests})), []).append(leaf)
        for test in leaf.tests:
            edges[test.feature].add(test.threshold)
    above = [np.unique(np.nextafter(sorted(of), np.inf)) for of in edges]  # a value that equals one is not above
    mean = sum(leaf.value for leaf in by_features.pop((), ()))
    terms = list[Term]()
    for features, leaves in sorted(by_features.items(), key=lambda one: (len(one[0]), one[0])):
        axes = {feature: _middles(above[feature]) for feature in features}
        scores = np.zeros([len(axis) for axis in axes.values()])
        for leaf in leaves:
            reached = {feature: np.ones(len(axis), bool) for feature, axis in axes.items()}
            for test in leaf.tests:
                reached[test.feature] &= test.passed(axes[test.feature])
            scores[np.ix_(*reached.values())] += leaf.value
        counts = np.zeros(scores.shape)
        np.add.at(counts, tuple(_bins(table.rows[:, one], above[one]) for one in features), 1.0)
        middle = float((scores * counts).sum() / counts.sum())
        mean += middle
        terms.append(Term(features, tuple(above[one] for one in features), scores - middle, counts))
    if not terms:
        raise ValueError(f"{table.target_name}: nothing can be learned of it from these {len(table.target)} rows")
    return AdditiveModel(
        with_whole(table.features, table.rows), mean, tuple(terms), "identity", None, table.target_name
    )


def _middles(edges: Floats) -> Floats:
    """Return a value in each bin: the missing one, below the first edge, between two, and from the last on."""
    return np.array([np.nan, float(edges[0]) - 1.0, *edges.tolist()])


def _bins(values: Floats, edges: Floats) -> np.ndarray:
    return np.where(np.isnan(values), 0, 1 + np.searchsorted(edges, values, side="right"))
