"""Grows trees without limits by scikit-learn's CART, to be pruned by `pruning`.

Fitting needs the extra `coadapt[learned]`; what is fitted needs nothing of it. scikit-learn prunes by impurity
alone, and its price of a leaf is of another scale. So the price here is by `cost`: the error rate, as the text
says, or impurity (Gini; squared error of numbers).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .needs import library
from .table import Floats, Table, with_whole
from .tree import KNOWN, Cost, TreeModel

MOST_SINGLE = 1e38
_FAR = 16  # times as far from 0 as from each other


def grow(
    table: Table, *, cost: Cost | None = None, least_rows: int = 1, seed: int = 0, weights: Floats | None = None
) -> TreeModel:
    """Return a tree grown until no leaf can be divided; two with one seed are the same.

    Args:
        cost: None: `error` for classes, and `impurity` for numbers.
        least_rows: of a leaf.
        weights: (rows,) of the rows; None: all alike.

    Raises:
        ValueError: in one sentence, for `error` where there are no classes, and for other arguments that are none.
        LibraryMissing: where the extra is not installed.
    """
    cost = cost or ("error" if table.classes else "impurity")
    if cost not in ("error", "impurity"):
        raise ValueError(f"cost: {cost!r} is not accepted, must be error or impurity")
    if cost == "error" and not table.classes:
        raise ValueError("cost: error is of classes, and the target has none; impurity is accepted")
    if least_rows < 1:
        raise ValueError(f"least_rows: {least_rows} is not accepted, must be a whole number of at least 1")
    trees = library("sklearn.tree")
    kind = trees.DecisionTreeClassifier if table.classes else trees.DecisionTreeRegressor
    # It compares in single precision. Rows are rounded first, so that its thresholds lie between what it saw.
    begin = _beginnings(table)
    fitted = kind(random_state=seed, min_samples_leaf=least_rows).fit(
        (table.rows - begin).astype(np.float32),
        table.target.astype(int) if table.classes else table.target,
        weights,
    )
    return _as_numbers(fitted, table, cost, begin)


def _beginnings(table: Table) -> Floats:
    """Return (features,) what to count values from, so that single precision tells them apart.

    It is 0 but for values far from 0 and near to each other, such as times of one month.
    """
    found = np.zeros(len(table.features))
    for at, (feature, column) in enumerate(zip(table.features, table.rows.T, strict=True)):
        known = column[~np.isnan(column)]
        if not len(known):
            continue
        if (largest := float(np.abs(known).max())) > MOST_SINGLE:
            raise ValueError(f"{feature.name}: {largest:.6g} is too large for a tree; at most 1e38 is accepted")
        if 0 < _FAR * np.ptp(known) < largest:
            found[at] = known.min()
    return found


def _as_numbers(fitted: Any, table: Table, cost: Cost, begin: Floats) -> TreeModel:
    of = fitted.tree_
    thresholds = of.threshold + begin[np.maximum(of.feature, 0)]
    left, right = of.children_left.astype(np.int64), of.children_right.astype(np.int64)
    inner = left >= 0
    rows = of.weighted_n_node_samples
    values = of.value[:, 0, :].astype(float)
    if table.classes:
        shares = values / np.maximum(values.sum(axis=1, keepdims=True), 1e-300)
        values = np.zeros((len(shares), len(table.classes)))
        values[:, fitted.classes_.astype(int)] = shares
    part = rows / rows[0]
    costs = part * (1 - values.max(axis=1)) if cost == "error" else part * of.impurity
    if cost == "error":  # whole rows, so that links that are equal are equal to the bit
        wrong = np.rint(rows - rows * values.max(axis=1))
        if np.allclose(wrong, rows - rows * values.max(axis=1), atol=1e-6):
            costs = wrong / rows[0]
    missing_left = of.missing_go_to_left.astype(bool)
    seen = np.isnan(table.rows).sum(axis=0) > 0
    never = inner & ~seen[np.maximum(of.feature, 0)]
    missing_left[never] = rows[left[never]] > rows[right[never]]  # to where more rows are
    return TreeModel(
        with_whole(table.features, table.rows),
        np.where(inner, of.feature, -1).astype(np.int64),
        np.where(inner, np.minimum(thresholds, KNOWN), 0.0),  # infinity divides the known from the missing
        left,
        right,
        missing_left,
        values,
        of.weighted_n_node_samples.astype(float),
        np.asarray(costs, float),
        cost,
        table.target_name,
        table.classes,
    )


def fit(
    table: Table,
    alpha: float = 0.0,
    *,
    cost: Cost | None = None,
    least_rows: int = 1,
    seed: int = 0,
    weights: Floats | None = None,
) -> TreeModel:
    """Grow a tree and prune it at a price per leaf; see `grow` and `TreeModel.pruned`."""
    return grow(table, cost=cost, least_rows=least_rows, seed=seed, weights=weights).pruned(alpha)
