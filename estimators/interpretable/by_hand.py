"""Sets a score of an additive model, or the answer of a tree, for a box of values. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from .additive import AdditiveModel, Term
from .table import Feature, Floats
from .tree import KNOWN, TreeModel

Within = tuple[float, float] | str  # lowest and highest, both included; a category; or "missing"


def with_score(model: AdditiveModel, within: Mapping[int, Within], value: float | str) -> AdditiveModel:
    """Return the model in which the term of these features has this score there.

    Raises:
        ValueError: in one sentence, for features without a term, for an empty range and an unknown category.
    """
    if isinstance(value, str) or not math.isfinite(value):
        raise ValueError(f"value: {value!r} is not accepted, must be a finite score")
    at = next((i for i, term in enumerate(model.terms) if set(term.features) == set(within)), None)
    names = " and ".join(model.features[f].name for f in within)
    if at is None:
        raise ValueError(f"{names or 'within'}: there is no such term in this model")
    term, chosen = model.terms[at], []
    for axis, feature in enumerate(term.features):
        part, of = within[feature], model.features[feature]
        if part == "missing":
            chosen.append(np.array([0]))
            continue
        low, high = _cuts(of, part)
        term = _divided(term, axis, low, high)
        first = int(np.searchsorted(term.edges[axis], low, side="right")) if math.isfinite(low) else 0
        last = int(np.searchsorted(term.edges[axis], high, side="left")) if math.isfinite(high) else None
        chosen.append(np.arange(1, len(term.edges[axis]) + 2)[first : None if last is None else last + 1])
    scores = term.scores.copy()
    scores[np.ix_(*chosen)] = value
    terms = list(model.terms)
    terms[at] = replace(term, scores=scores)
    return replace(model, terms=tuple(terms))


def _cuts(feature: Feature, part: Within) -> tuple[float, float]:
    """Return between which cuts the part lies: from the first on, and below the second."""
    if isinstance(part, str):
        if part not in feature.categories:
            accepted = ", ".join([*feature.categories[:20], "missing"])
            raise ValueError(f"{feature.name}: {part!r} is no category of it; accepted: {accepted}")
        code = feature.categories.index(part)
        last = len(feature.categories) - 1
        return (code - 0.5 if code else -math.inf), (code + 0.5 if code < last else math.inf)
    if feature.categories:
        raise ValueError(f"{feature.name}: is a category; a range of it is not accepted, name one of its values")
    low, high = part
    if not low <= high or math.isnan(low) or low == math.inf or high == -math.inf:
        raise ValueError(f"{feature.name}: {low:g} to {high:g} is not accepted, must be in ascending order")
    if feature.whole:
        if math.isfinite(low) and math.isfinite(high) and math.ceil(low) > math.floor(high):
            raise ValueError(f"{feature.name}: {low:g} to {high:g} is not accepted, no whole number lies there")
        return math.ceil(low) - 0.5 if math.isfinite(low) else low, (
            math.floor(high) + 0.5 if math.isfinite(high) else high
        )
    return low, (math.nextafter(high, math.inf) if math.isfinite(high) else high)


def _divided(term: Term, axis: int, low: float, high: float) -> Term:
    """Return the term with edges at two cuts. Rows of a bin that is divided count in equal parts."""
    old = term.edges[axis]
    edges = np.unique(np.concatenate([old, [cut for cut in (low, high) if math.isfinite(cut)]]))
    lowest = np.concatenate([[-np.inf], edges])
    bins = np.concatenate([[0], 1 + np.searchsorted(old, lowest, side="right")])
    shape = [1] * term.scores.ndim
    shape[axis] = -1
    parts = np.bincount(bins)[bins].reshape(shape)
    every = list(term.edges)
    every[axis] = edges
    return Term(
        term.features, tuple(every), np.take(term.scores, bins, axis), np.take(term.counts, bins, axis) / parts
    )


# --- trees --------------------------------------------------------------------------------------------------


# By feature: rows of a leaf are above the first, at most the second, and perhaps missing.
_Bounds = dict[int, tuple[float, float, bool]]
_ANY = (-math.inf, math.inf, True)


@dataclass
class _Grown:
    """Nodes of a tree under way, as lists."""

    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    missing_left: list[bool] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)
    counts: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)

    def add(self, tree: TreeModel, node: int) -> int:
        """Add a copy of a node and return its number."""
        self.feature.append(int(tree.feature[node]))
        self.threshold.append(float(tree.threshold[node]))
        self.left.append(-1)
        self.right.append(-1)
        self.missing_left.append(bool(tree.missing_left[node]))
        self.values.append(tree.values[node])
        self.counts.append(float(tree.counts[node]))
        self.costs.append(float(tree.costs[node]))
        return len(self.feature) - 1


def with_answer(tree: TreeModel, within: Mapping[int, Within], value: float | str) -> TreeModel:
    """Return the tree that gives this answer in a box. Leaves that reach out of it are divided.

    Raises:
        ValueError: in one sentence, for an unknown class, an empty range, and no feature at all.
    """
    if not within:
        raise ValueError("within: names no feature; at least one is accepted")
    answer = _answer(tree, value)
    box = {}
    for feature, part in within.items():
        if part == "missing":
            raise ValueError(f"{tree.features[feature].name}: missing is not accepted for a tree, give a range")
        low, high = _cuts(tree.features[feature], part)
        whole = tree.features[feature].whole or bool(tree.features[feature].categories)
        # A row goes left where it is at most the threshold, so the lowest value itself is above its threshold.
        box[feature] = (
            low if whole or math.isinf(low) else math.nextafter(low, -math.inf),
            high if whole or math.isinf(high) else math.nextafter(high, -math.inf),
        )
    grown = _Grown()
    ahead: list[tuple[int, _Bounds, int, bool]] = [(0, {}, -1, False)]
    while ahead:
        node, bounds, parent, is_left = ahead.pop()
        new = grown.add(tree, node)
        if parent >= 0:
            (grown.left if is_left else grown.right)[parent] = new
        feature, at = int(tree.feature[node]), float(tree.threshold[node])
        if feature < 0:
            _carve(grown, new, bounds, box, answer)
            continue
        low, high, missing = bounds.get(feature, _ANY)
        to_left = missing and bool(tree.missing_left[node])
        right, left = (max(low, at), high, missing and not to_left), (low, min(high, at), to_left)
        ahead.append((int(tree.right[node]), {**bounds, feature: right}, new, False))
        ahead.append((int(tree.left[node]), {**bounds, feature: left}, new, True))
    return replace(
        tree,
        feature=np.array(grown.feature, np.int64),
        threshold=np.array(grown.threshold),
        left=np.array(grown.left, np.int64),
        right=np.array(grown.right, np.int64),
        missing_left=np.array(grown.missing_left, bool),
        values=np.array(grown.values),
        counts=np.array(grown.counts),
        costs=np.array(grown.costs),
    )


def _carve(
    grown: _Grown, leaf: int, bounds: _Bounds, box: Mapping[int, tuple[float, float]], answer: Floats
) -> None:
    """Divide a leaf by the sides of the box that cross it, and answer within. Missing values stay outside."""
    ends = {feature: bounds.get(feature, _ANY) for feature in box}
    if any(max(low, ends[f][0]) >= min(high, ends[f][1]) for f, (low, high) in box.items()):
        return
    for feature, (low, high) in box.items():
        least, most, missing = ends[feature]
        cuts = [(cut, cut == high) for cut in (low, high) if least < cut < most]
        if missing and not cuts:
            cuts = [(KNOWN, True)]
        for cut, inside_left in cuts:
            inside, outside = (_copy(grown, leaf) for _ in range(2))
            grown.feature[leaf], grown.threshold[leaf] = feature, cut
            grown.left[leaf], grown.right[leaf] = (inside, outside) if inside_left else (outside, inside)
            grown.missing_left[leaf] = not inside_left
            leaf = inside
    grown.values[leaf] = answer


def _copy(grown: _Grown, leaf: int) -> int:
    """Add a leaf like another one; nobody has counted how many rows of it are in which, so both have half."""
    for values in (grown.feature, grown.left, grown.right):
        values.append(-1)
    grown.threshold.append(0.0)
    grown.missing_left.append(False)
    grown.values.append(grown.values[leaf])
    grown.counts.append(grown.counts[leaf] / 2)
    grown.costs.append(grown.costs[leaf] / 2)
    return len(grown.feature) - 1


def _answer(tree: TreeModel, value: float | str) -> Floats:
    if tree.classes:
        if value not in tree.classes:
            raise ValueError(f"value: {value!r} is no class; accepted: {', '.join(tree.classes)}")
        return np.eye(len(tree.classes))[tree.classes.index(str(value))]
    if isinstance(value, str) or not math.isfinite(value):
        raise ValueError(f"value: {value!r} is not accepted, must be a finite number")
    return np.array([value], float)
