"""A decision tree as numbers: predictions, rules, paths, pruning. Pure.

Source: Primo, ATC'22, section on PrDT. A row goes left where its feature is at most the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..compiling import kernel
from .pruning import Floats, Ints, Step, kept, weakest_links
from .table import Feature, checked_rows

Cost = Literal["error", "impurity"]
Bools = NDArray[np.bool_]
_MOST_NAMED = 6  # categories in a text
KNOWN = float(np.finfo(float).max)  # as a threshold: all known values are at most that


@dataclass(frozen=True)
class Rule:
    """A leaf as a rule: `conditions` as text, what is answered, and the rows of the fit that it has."""

    conditions: tuple[str, ...]
    answer: str
    rows: float
    leaf: int

    @property
    def text(self) -> str:
        """Return it as one line."""
        if not self.conditions:
            return f"always {self.answer} ({self.rows:g} rows)"
        return f"if {' and '.join(self.conditions)}: {self.answer} ({self.rows:g} rows)"


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A fitted tree. All arrays are by node; node 0 is the root, and children stand behind their parent.

    feature: of the test, -1 for a leaf. missing_left: where rows without the feature go.
    values: (nodes, 1) means, or (nodes, classes) shares. counts: rows of the fit.
    costs: what each would cost as a leaf, as shares of all rows; `cost` says in which measure.

    Raises:
        ValueError: in one sentence, for arrays that are no tree.
    """

    features: tuple[Feature, ...]
    feature: Ints = field(repr=False)
    threshold: Floats = field(repr=False)
    left: Ints = field(repr=False)
    right: Ints = field(repr=False)
    missing_left: Bools = field(repr=False)
    values: Floats = field(repr=False)
    counts: Floats = field(repr=False)
    costs: Floats = field(repr=False)
    cost: Cost = "impurity"
    target: str = "target"
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        nodes = len(self.feature)
        arrays = (self.threshold, self.left, self.right, self.missing_left, self.values, self.counts, self.costs)
        if not nodes or any(len(one) != nodes for one in arrays):
            raise ValueError("tree: its arrays differ in length, or it has no node")
        if self.values.shape != (nodes, len(self.classes) or 1):
            raise ValueError(f"tree: values of shape {self.values.shape} do not go with {nodes} nodes")
        inner = np.flatnonzero(self.left >= 0)
        children = np.concatenate([self.left[inner], self.right[inner]])
        if (children <= np.tile(inner, 2)).any() or sorted(children.tolist()) != list(range(1, nodes)):
            raise ValueError("tree: a child does not stand behind its one parent")
        if ((self.left < 0) != (self.right < 0)).any() or ((self.left < 0) != (self.feature < 0)).any():
            raise ValueError("tree: a node is half a leaf")
        if (self.feature >= len(self.features)).any():
            raise ValueError(f"tree: tests a feature beyond the {len(self.features)} that it has")
        if not all(np.isfinite(one).all() for one in (self.threshold, self.values, self.counts, self.costs)):
            raise ValueError("tree: a number is not finite")

    # --- predictions ----------------------------------------------------------------------------------------

    def leaves_of(self, rows: Floats) -> Ints:
        """Return (rows,) the leaf of each row; `rows`: (rows, features), nan where a value is missing."""
        found = checked_rows(self.features, rows)
        return np.asarray(
            walked(found, self.feature, self.threshold, self.left, self.right, self.missing_left), np.int64
        )

    def predict(self, rows: Floats) -> Floats:
        """Return (rows,) means, or the positions of the likeliest classes."""
        return self._answers[self.leaves_of(rows)]

    def probabilities(self, rows: Floats) -> Floats:
        """Return (rows, classes) shares of the classes in the leaves."""
        return self.values[self.leaves_of(rows)]

    @cached_property
    def _answers(self) -> Floats:
        return self.values.argmax(axis=1).astype(float) if self.classes else self.values[:, 0]

    # --- shape ----------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> int:
        return len(self.feature)

    @property
    def leaves(self) -> int:
        return int((self.feature < 0).sum())

    @property
    def depth(self) -> int:
        """Return the tests of the longest path."""
        depth = np.zeros(self.nodes, int)
        for node in np.flatnonzero(self.left >= 0):
            depth[[self.left[node], self.right[node]]] = depth[node] + 1
        return int(depth.max())

    @property
    def complexity(self) -> int:
        """Return leaves times depth, as the text counts it."""
        return self.leaves * self.depth

    def importances(self) -> list[tuple[str, float]]:
        """Return features with the part of all that they lower the cost by; largest first."""
        found = np.zeros(len(self.features))
        inner = self.left >= 0
        lower = self.costs[inner] - self.costs[self.left[inner]] - self.costs[self.right[inner]]
        np.add.at(found, self.feature[inner], np.maximum(lower, 0.0))
        total = found.sum() or 1.0
        pairs = [(one.name, float(value / total)) for one, value in zip(self.features, found, strict=True)]
        return sorted(pairs, key=lambda one: -one[1])

    # --- pruning --------------------------------------------------------------------------------------------

    def path(self) -> list[Step]:
        """Return the prices of a leaf at which nodes become leaves, and how many leaves are left."""
        return list(weakest_links(self.left, self.right, self.costs))

    def pruned(self, alpha: float) -> TreeModel:
        """Return the smallest tree with the least cost + alpha·leaves. Raises ValueError for alpha below 0."""
        return self.with_leaves(kept(self.left.copy(), self.right, self.costs, alpha))

    def with_leaves(self, leaf: Bools) -> TreeModel:
        """Return the tree that ends at these nodes."""
        order, ahead = list[int](), [0]
        while ahead:
            node = ahead.pop()
            order.append(node)
            if not leaf[node]:
                ahead += [int(self.right[node]), int(self.left[node])]
        at = {node: i for i, node in enumerate(order)}
        inner = [not leaf[node] for node in order]

        def child(of: Ints) -> Ints:
            return np.array([at[int(of[n])] if i else -1 for n, i in zip(order, inner, strict=True)], np.int64)

        return replace(
            self,
            feature=np.where(inner, self.feature[order], -1),
            threshold=np.where(inner, self.threshold[order], 0.0),
            left=child(self.left),
            right=child(self.right),
            missing_left=self.missing_left[order],
            values=self.values[order],
            counts=self.counts[order],
            costs=self.costs[order],
        )

    def quantised(self) -> TreeModel:
        """Return the tree with whole thresholds where features are whole. It decides whole rows alike."""
        whole = np.array([one.whole for one in self.features] or [False])
        floors = np.where((self.feature >= 0) & whole[self.feature], np.floor(self.threshold), self.threshold)
        return replace(self, threshold=floors)

    # --- reading --------------------------------------------------------------------------------------------

    def answer(self, node: int) -> str:
        """Return what a leaf answers, as text."""
        if not self.classes:
            return f"{self.target} {self.values[node, 0]:.4g}"
        best = int(self.values[node].argmax())
        return f"{self.target} {self.classes[best]} ({self.values[node, best]:.0%})"

    def rules(self) -> list[Rule]:
        """Return one rule per leaf, from left to right. Tests of one feature are joined."""
        found, ahead = list[Rule](), [(0, dict[int, tuple[float, float]]())]
        while ahead:
            node, within = ahead.pop()
            feature = int(self.feature[node])
            if feature < 0:
                conditions = tuple(between(self.features[f], *ends) for f, ends in within.items())
                found.append(Rule(conditions, self.answer(node), float(self.counts[node]), node))
                continue
            low, high = within.get(feature, (-np.inf, np.inf))
            at = float(self.threshold[node])
            ahead.append((int(self.right[node]), {**within, feature: (max(low, at), high)}))
            ahead.append((int(self.left[node]), {**within, feature: (low, min(high, at))}))
        return found

    def explain(self, row: Floats) -> tuple[list[str], str]:
        """Return the tests that one row, (features,), passes from the root on, and the answer."""
        node, steps = 0, list[str]()
        while (feature := int(self.feature[node])) >= 0:
            value, at = row[feature], self.threshold[node]
            goes_left = bool(self.missing_left[node] if np.isnan(value) else value <= at)
            of = self.features[feature]
            steps.append(f"{of.name} is {of.shown(value)}, {_side(of, at, goes_left)}")
            node = int(self.left[node] if goes_left else self.right[node])
        return steps, self.answer(node)


def between(feature: Feature, low: float, high: float) -> str:
    """Return `low < feature <= high` as text, without ends that are infinite."""
    if low == KNOWN:
        return f"{feature.name} is missing"
    if high == KNOWN:
        if low == -np.inf:
            return f"{feature.name} is known"
        high = np.inf
    if feature.categories:
        return f"{feature.name} is {_named(feature, low, high)}"
    if low == -np.inf:
        return f"{feature.name} <= {high:.6g}"
    return f"{feature.name} > {low:.6g}" if high == np.inf else f"{low:.6g} < {feature.name} <= {high:.6g}"


def _named(feature: Feature, low: float, high: float) -> str:
    """Return the categories whose codes lie above one end and at most at the other, as text."""
    first = 0 if low == -np.inf else int(np.floor(low)) + 1
    last = len(feature.categories) - 1 if high == np.inf else int(np.floor(high))
    names = feature.categories[first : last + 1]
    if len(names) > _MOST_NAMED:
        return f"one of {', '.join(names[:_MOST_NAMED])} and {len(names) - _MOST_NAMED} more"
    return f"one of {', '.join(names)}" if len(names) > 1 else ", ".join(names)


def _side(feature: Feature, at: float, goes_left: bool) -> str:
    if at == KNOWN:
        return "known" if goes_left else "not known"
    if feature.categories:
        return _named(feature, *((-np.inf, at) if goes_left else (at, np.inf)))
    return f"{'at most' if goes_left else 'above'} {at:.6g}"


@kernel
def walked(rows: Floats, feature: Ints, threshold: Floats, left: Ints, right: Ints, missing_left: Bools) -> Ints:
    """Return (rows,) the leaves that rows reach."""
    found = np.empty(rows.shape[0], np.int64)
    for i in range(rows.shape[0]):
        node = 0
        while feature[node] >= 0:
            x = rows[i, feature[node]]
            goes_left = missing_left[node] if np.isnan(x) else x <= threshold[node]
            node = left[node] if goes_left else right[node]
        found[i] = node
    return found


def nodes_below(tree: TreeModel, node: int) -> Sequence[int]:
    """Return a node and all that is below it."""
    found, ahead = list[int](), [node]
    while ahead:
        one = ahead.pop()
        found.append(one)
        if tree.left[one] >= 0:
            ahead += [int(tree.right[one]), int(tree.left[one])]
    return found
