"""What people change in a model: monotone terms, and scores or answers set by hand. Pure.

Corrections are kept beside the fit and say what they mean in values, not in bins. So they apply to the next fit
just as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from .additive import AdditiveModel, Term, terms_of
from .by_hand import Within, with_answer, with_score
from .monotone import Direction, is_monotone, pooled
from .table import Floats, position
from .tree import TreeModel

Model = AdditiveModel | TreeModel
ModelT = TypeVar("ModelT", AdditiveModel, TreeModel)
Pairs = Literal["refuse", "drop", "keep"]
Unknown = Literal["refuse", "wait"]
_SLACK = 1e-12  # steps back that rounding makes


@dataclass(frozen=True)
class Monotone:
    """A feature that only ever raises, or only ever lowers, what an additive model says.

    pairs: what becomes of pair terms that would undo it: `refuse` it, `drop` them, or `keep` and name them.
    """

    feature: str
    direction: Direction = "increasing"
    pairs: Pairs = "refuse"


@dataclass(frozen=True)
class ByHand:
    """A score of the term of these features, or the answer of a tree, where all of them are within.

    within: by feature (lowest, highest), both included; a category; or "missing".
    value: a score, a number to answer, or a class.
    """

    within: Mapping[str, Within]
    value: float | str


Correction = Monotone | ByHand


def corrected(model: ModelT, corrections: Sequence[Correction], unknown: Unknown = "refuse") -> ModelT:
    """Return the model with corrections, in their order.

    Args:
        unknown: what becomes of corrections by hand for which the model has no place: `refuse` them, or let them
            `wait` for a fit that has one.

    Raises:
        ValueError: in one sentence, for one that does not go with the model.
    """
    for one in corrections:
        if isinstance(one, ByHand):
            if unknown == "wait" and not has_place(model, one):
                continue
            within = {position(model.features, name): part for name, part in one.within.items()}
            if isinstance(model, AdditiveModel):
                model = with_score(model, within, one.value)
            else:
                model = with_answer(model, within, one.value)
        elif isinstance(model, AdditiveModel):
            model = with_monotone(model, one.feature, one.direction, one.pairs)
        else:
            raise ValueError(f"{one.feature}: a tree has no terms to be monotone; make it an additive model")
    return model


def check(model: Model, corrections: Sequence[Correction]) -> None:
    """Raise ValueError, in one sentence, for corrections that do not go with a model, or have no place in it."""
    if isinstance(model, AdditiveModel):
        corrected(model, corrections)
    else:
        corrected(model, corrections)


def has_place(model: Model, one: ByHand) -> bool:
    """Return whether a model has the categories, the term or the class of a correction by hand.

    The next fit may lack them: a user who has left, or a pair that counts no more.

    Raises:
        ValueError: in one sentence, for an unknown feature.
    """
    within = {position(model.features, name): part for name, part in one.within.items()}
    for at, part in within.items():
        known = model.features[at].categories
        if known and isinstance(part, str) and part not in (*known, "missing"):
            return False
    if isinstance(model, AdditiveModel):
        return any(set(term.features) == set(within) for term in model.terms)
    return not model.classes or one.value in model.classes


def with_monotone(
    model: AdditiveModel, which: str | int, direction: Direction = "increasing", pairs: Pairs = "refuse"
) -> AdditiveModel:
    """Return the model with one monotone term, the nearest by rows of the fit. The missing bin stays.

    Args:
        which: the feature, by name or number.

    Raises:
        ValueError: in one sentence, for an unknown feature, one of categories, one without a term of its own, and
            where pair terms would undo it and `pairs` is refuse.
    """
    feature = position(model.features, which)
    name = model.features[feature].name
    if model.features[feature].categories:
        raise ValueError(f"{name}: is a category, which has no order; only features of numbers can be monotone")
    if pairs not in ("refuse", "drop", "keep"):
        raise ValueError(f"pairs: {pairs!r} is not accepted, must be refuse, drop or keep")
    at = next((i for i, term in enumerate(model.terms) if term.features == (feature,)), None)
    if at is None:
        raise ValueError(f"{name}: has no term of its own in this model, so nothing can be made monotone")
    term = model.terms[at]
    known, counts = term.scores[1:], term.counts[1:]
    better = pooled(known, counts, direction)
    total = term.counts.sum()
    shift = float(((better - known) * counts).sum() / total) if total else 0.0
    terms = list(model.terms)
    terms[at] = replace(term, scores=np.concatenate([term.scores[:1], better - shift]))
    found = replace(model, mean=model.mean + shift, terms=tuple(terms))
    undoing = undoing_terms(found, feature, direction)
    if undoing and pairs == "refuse":
        names = ", ".join(found.name_of(one) for one in undoing)
        raise ValueError(
            f"{name}: the pair terms {names} would undo it; pairs: drop takes them out, and keep leaves them in"
        )
    if pairs == "drop":
        gone = {id(one) for one in undoing}
        found = replace(found, terms=tuple(one for one in found.terms if id(one) not in gone))
    return found


def undoing_terms(model: AdditiveModel, feature: int, direction: Direction) -> list[Term]:
    """Return the pair terms whose removal makes the whole model monotone in a feature, the worst first.

    It looks at the worst case: the steepest way back of each pair term, over all values of the other feature.
    """
    sign = 1.0 if direction == "increasing" else -1.0
    terms = terms_of(model, feature)
    edges = np.unique(
        np.concatenate([term.edges[term.features.index(feature)] for term in terms] or [np.empty(0)])
    )
    least = {id(term): _least_steps(term, feature, edges, sign) for term in terms}
    pairs, found = [term for term in terms if len(term.features) == 2], list[Term]()
    while pairs and (np.sum([least[id(term)] for term in terms], axis=0) < -_SLACK).any():
        worst = min(pairs, key=lambda term: float(np.minimum(least[id(term)], 0).sum()))
        found.append(worst)
        pairs = [term for term in pairs if term is not worst]
        terms = [term for term in terms if term is not worst]
    return found


def _least_steps(term: Term, feature: int, edges: Floats, sign: float) -> Floats:
    """Return (edges,) how much the score of a term rises at least, over each edge."""
    axis = term.features.index(feature)
    scores = sign * np.moveaxis(term.scores, axis, 0)[1:]
    bins = np.searchsorted(term.edges[axis], np.concatenate([[-np.inf], edges]), side="right")
    steps = np.diff(scores[bins], axis=0)
    return steps if steps.ndim == 1 else steps.min(axis=1)


def is_monotone_in(model: AdditiveModel, feature: int, direction: Direction) -> bool:
    """Return whether the whole model never turns back as one feature grows."""
    alone = [term for term in model.terms if term.features == (feature,)]
    slope = all(is_monotone(term.scores[1:], direction) for term in alone)
    return slope and not undoing_terms(model, feature, direction)


# --- as JSON ------------------------------------------------------------------------------------------------


def to_json(corrections: Sequence[Correction]) -> list[dict[str, Any]]:
    """Return corrections as plain JSON values."""
    return [
        {"monotone": one.feature, "direction": one.direction, "pairs": one.pairs}
        if isinstance(one, Monotone)
        else {
            "within": {
                name: part if isinstance(part, str) else [None if math.isinf(end) else end for end in part]
                for name, part in one.within.items()
            },
            "value": one.value,
        }
        for one in corrections
    ]


def read(rows: Any) -> tuple[Correction, ...]:
    """Return the corrections that `to_json` wrote. Raises ValueError, in one sentence, for anything else."""
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise ValueError("corrections: are no list")
    return tuple(_read(row) for row in rows)


def _read(row: Any) -> Correction:
    if isinstance(row, Mapping) and "monotone" in row:
        direction, pairs = row.get("direction", "increasing"), row.get("pairs", "refuse")
        if direction not in ("increasing", "decreasing"):
            raise ValueError(f"direction: {direction!r} is not accepted, must be increasing or decreasing")
        if pairs not in ("refuse", "drop", "keep"):
            raise ValueError(f"pairs: {pairs!r} is not accepted, must be refuse, drop or keep")
        return Monotone(str(row["monotone"]), direction, pairs)
    if isinstance(row, Mapping) and isinstance(row.get("within"), Mapping) and "value" in row:
        value = row["value"]
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"value: {value!r} is not accepted, must be a number or a class")
        within = {str(name): _within(name, part) for name, part in row["within"].items()}
        return ByHand(within, value if isinstance(value, str) else _finite("value", value))
    raise ValueError(f"corrections: {row!r} is none; accepted: monotone with direction, or within with value")


def _within(name: str, part: Any) -> Within:
    if isinstance(part, str):
        return part
    if isinstance(part, Sequence) and len(part) == 2 and all(
        one is None or (isinstance(one, int | float) and not isinstance(one, bool)) for one in part
    ):  # fmt: skip
        low, high = part
        return (
            -math.inf if low is None else _finite(name, low),
            math.inf if high is None else _finite(name, high),
        )
    raise ValueError(f"{name}: {part!r} is not accepted, must be [lowest, highest], a category or missing")


def _finite(name: str, value: float) -> float:
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise ValueError(f"{name}: a number that is not finite, or larger than 1.8e308, is not accepted")
    return found
