"""Additive models with interactions (GA2M): a mean, and one score per term. Kept as numbers; pure.

Source: Primo, ATC'22, section on PrAM; Lou et al., KDD'13. A prediction is `mean + score + score + …`, exactly and
in the order of terms. Of two classes it is the log of the odds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.special import expit

from .lookup import LookUp, looked_up, made
from .table import Feature, Floats, checked_rows

Link = Literal["identity", "logit"]


@dataclass(frozen=True, eq=False)
class Term:
    """A score by one feature, or by two together.

    features: one or two positions.
    edges: of each feature, ascending. Bin 0 is for what is missing; bin 1 lies below the first edge, and a value
        that equals an edge lies above it.
    scores: (bins,) or (bins, bins); counts: the same shape, rows of the fit in each bin.
    """

    features: tuple[int, ...]
    edges: tuple[Floats, ...]
    scores: Floats = field(repr=False)
    counts: Floats = field(repr=False)

    def __post_init__(self) -> None:
        shape = tuple(len(edges) + 2 for edges in self.edges)
        if len(self.features) not in (1, 2) or len(set(self.features)) != len(self.edges):
            raise ValueError(f"term: features {self.features} are not accepted, must be one or two different ones")
        if self.scores.shape != shape or self.counts.shape != shape:
            raise ValueError(f"term: scores of shape {self.scores.shape} are not accepted, must be of {shape}")
        for edges in self.edges:
            if not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
                raise ValueError("term: edges are not accepted, must be finite and in ascending order")
        if not np.isfinite(self.scores).all():
            raise ValueError("term: a score is not a finite number")
        if not np.isfinite(self.counts).all() or (self.counts < 0).any():
            raise ValueError("term: a count is not accepted, must be 0 or more")

    @property
    def importance(self) -> float:
        """Return the mean absolute score of the rows of the fit."""
        total = self.counts.sum()
        return float((np.abs(self.scores) * self.counts).sum() / total) if total else 0.0


@dataclass(frozen=True)
class Sum:
    """A prediction as a sum. parts: (name of the term, its features' values as text, score), largest first."""

    mean: float
    parts: tuple[tuple[str, str, float], ...]
    total: float


@dataclass(frozen=True, eq=False)
class AdditiveModel:
    """A fitted model.

    band: what is added to a prediction for a band of 80 %: quantiles of residuals of rows that no fit had seen.
    target: what it predicts, as "hours". classes: the two classes, where it tells classes apart.

    Raises:
        ValueError: in one sentence, for numbers that are not finite, and for terms of features that are not there.
    """

    features: tuple[Feature, ...]
    mean: float
    terms: tuple[Term, ...] = field(repr=False)
    link: Link = "identity"
    band: tuple[float, float] | None = None
    target: str = "target"
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not np.isfinite(self.mean) or (self.band is not None and not np.isfinite(self.band).all()):
            raise ValueError("model: its mean or band is not a finite number")
        if self.link not in ("identity", "logit") or (self.link == "logit") != (len(self.classes) == 2):
            raise ValueError(f"model: link {self.link!r} does not go with {len(self.classes)} classes")
        for term in self.terms:
            if not all(0 <= f < len(self.features) for f in term.features):
                raise ValueError(
                    f"model: a term is of features {term.features}, and there are {len(self.features)}"
                )

    @cached_property
    def _look_up(self) -> LookUp:
        codes = [len(one.categories) for one in self.features]
        return made(codes, [(term.features, term.edges, term.scores) for term in self.terms], self.mean)

    def name_of(self, term: Term) -> str:
        """Return a term's name, as "gpus" or "gpus and owner"."""
        return " and ".join(self.features[f].name for f in term.features)

    def scores(self, rows: Floats) -> Floats:
        """Return (rows,) sums of mean and scores; `rows`: (rows, features), nan where a value is missing."""
        return np.asarray(looked_up(checked_rows(self.features, rows), *self._look_up, np.empty((0, 0))), float)

    def predict(self, rows: Floats) -> Floats:
        """Return (rows,) predictions, or probabilities of the second class."""
        scores = self.scores(rows)
        return scores if self.link == "identity" else np.asarray(expit(scores), float)

    def classified(self, rows: Floats) -> Floats:
        """Return (rows,) positions of the likelier classes."""
        return (self.scores(rows) > 0).astype(float)

    def contributions(self, rows: Floats) -> Floats:
        """Return (rows, terms) scores. The mean and these, added in order, are the sum to the bit."""
        apart = np.empty((len(rows), len(self.terms)))
        looked_up(checked_rows(self.features, rows), *self._look_up, apart)
        return apart

    def bands(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return (rows,) lower and upper ends of bands of 80 %. Raise ValueError where no band was fitted."""
        if self.band is None:
            raise ValueError("model: has no band, as none was fitted")
        found = self.predict(rows)
        return found + self.band[0], found + self.band[1]

    def explain(self, row: Floats) -> Sum:
        """Return the prediction for one row, (features,), as a sum."""
        scores = self.contributions(row[None])[0]
        parts = [
            (self.name_of(term), ", ".join(self.features[f].shown(row[f]) for f in term.features), float(score))
            for term, score in zip(self.terms, scores, strict=True)
        ]
        parts.sort(key=lambda part: -abs(part[2]))
        return Sum(self.mean, tuple(parts), float(self.scores(row[None])[0]))

    def importances(self) -> list[tuple[str, float]]:
        """Return terms with the mean absolute score of the fit's rows, largest first."""
        found = [(self.name_of(term), term.importance) for term in self.terms]
        return sorted(found, key=lambda one: -one[1])

    @property
    def complexity(self) -> int:
        """Return interactions times bins, as the text counts it: of the pair terms, and of the longest axis."""
        pairs = sum(len(term.features) == 2 for term in self.terms)
        return pairs * max((len(edges) + 1 for term in self.terms for edges in term.edges), default=0)

    @property
    def numbers(self) -> int:
        """Return how many scores it holds."""
        return 1 + sum(term.scores.size for term in self.terms)


def terms_of(model: AdditiveModel, feature: int) -> Sequence[Term]:
    """Return the terms in which a feature takes part."""
    return [term for term in model.terms if feature in term.features]
