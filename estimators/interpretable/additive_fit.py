"""Fits additive models by interpret's explainable boosting, round robin and without smoothing, as in the text.

Fitting needs the extra `coadapt[learned]`; what is fitted needs nothing of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .additive import AdditiveModel, Term
from .needs import library
from .table import Feature, Floats, Table, with_whole

TAILS = (0.1, 0.9)  # of a band of 80 %
HELD_BACK = 0.2  # of the rows, the newest, of which the residuals make the band
LEAST_HELD_BACK = 10
_NOT_VALUES = 2  # bins that the library counts too: of what is missing, and of what it has not seen


@dataclass(frozen=True)
class AdditiveSettings:
    """How a model is fitted.

    bins: of one feature alone. pair_bins: of each feature of a pair. interactions: pair terms.
    bags: fits to parts of the rows, whose scores are averaged. rounds: of boosting, at most.

    Raises:
        ValueError: in one sentence, for a number that is not accepted.
    """

    bins: int = 256
    pair_bins: int = 32
    interactions: int = 10
    learning_rate: float = 0.04
    bags: int = 4
    rounds: int = 1000
    least_rows: int = 4  # of a leaf

    def __post_init__(self) -> None:
        for name, least in (
            ("bins", 2), ("pair_bins", 2), ("interactions", 0), ("bags", 1), ("rounds", 1), ("least_rows", 1),
        ):  # fmt: skip
            if (value := getattr(self, name)) < least:
                raise ValueError(f"{name}: {value} is not accepted, must be a whole number of at least {least}")
        if not 0 < self.learning_rate <= 10:
            raise ValueError(
                f"learning_rate: {self.learning_rate} is not accepted, must be above 0 and at most 10"
            )


def fit(
    table: Table,
    settings: AdditiveSettings | None = None,
    *,
    seed: int = 0,
    weights: Floats | None = None,
    tails: tuple[float, float] | None = TAILS,
) -> AdditiveModel:
    """Fit a model to a table; two fits with one seed are the same.

    Args:
        weights: (rows,) of the rows; None: all alike.
        tails: of the band, by residuals of the newer rows of a fit to the older ones; None: no band is fitted.

    Raises:
        ValueError: in one sentence, for more than two classes.
        LibraryMissing: where the extra is not installed.
    """
    settings = settings or AdditiveSettings()
    if table.classes and len(table.classes) != 2:
        raise ValueError(
            f"{table.target_name}: an additive model tells two classes apart, not {len(table.classes)}"
        )
    found = _fitted(table, settings, seed, weights)
    ends = None
    if tails is not None and not table.classes:
        ends = _band(table, settings, seed, weights, tails)
    return AdditiveModel(
        with_whole(table.features, table.rows),
        found.mean,
        found.terms,
        found.link,
        ends,
        table.target_name,
        table.classes,
    )


def _band(
    table: Table, settings: AdditiveSettings, seed: int, weights: Floats | None, tails: tuple[float, float]
) -> tuple[float, float] | None:
    order = table.in_order(seed)
    held = order[len(order) - int(HELD_BACK * len(order)) :]
    taught = order[: len(order) - len(held)]
    if len(held) < LEAST_HELD_BACK or np.ptp(table.target[taught]) == 0:
        return None
    older = _fitted(table.of(taught), settings, seed, None if weights is None else weights[taught])
    low, high = np.quantile(table.target[held] - older.predict(table.rows[held]), tails)
    return float(low), float(high)


def _fitted(table: Table, settings: AdditiveSettings, seed: int, weights: Floats | None) -> AdditiveModel:
    boosting = library("interpret.glassbox")
    shared: Mapping[str, Any] = {
        "feature_names": [one.name for one in table.features],
        "feature_types": ["nominal" if one.categories else "continuous" for one in table.features],
        "max_bins": settings.bins + _NOT_VALUES,
        "max_interaction_bins": settings.pair_bins + _NOT_VALUES,
        "interactions": settings.interactions if len(table.features) > 1 else 0,
        "learning_rate": settings.learning_rate,
        "outer_bags": settings.bags,
        "max_rounds": settings.rounds,
        "min_samples_leaf": settings.least_rows,
        "greedy_ratio": 0,
        "smoothing_rounds": 0,
        "interaction_smoothing_rounds": 0,
        "random_state": seed,
        "n_jobs": 1,
    }
    kind = boosting.ExplainableBoostingClassifier if table.classes else boosting.ExplainableBoostingRegressor
    boosted = kind(**shared)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its pictures do not show what is missing, and ours do
        boosted.fit(table.rows, table.target.astype(int) if table.classes else table.target, sample_weight=weights)
    terms = tuple(_term(boosted, number, table.features) for number in range(len(boosted.term_features_)))
    mean = float(np.asarray(boosted.intercept_).ravel()[0])
    return AdditiveModel(
        table.features, mean, terms, "logit" if table.classes else "identity", None, "", table.classes
    )


def _term(boosted: Any, number: int, features: tuple[Feature, ...]) -> Term:
    """Return one term as numbers. The library's last bin, of what it does not know, is left out."""
    of = tuple(int(f) for f in boosted.term_features_[number])
    scores, counts = (np.asarray(values[number], float) for values in (boosted.term_scores_, boosted.bin_weights_))
    edges = list[Floats]()
    for axis, feature in enumerate(of):
        grids = boosted.bins_[feature]
        grid = grids[min(len(of), len(grids)) - 1]
        if isinstance(grid, dict):
            unknown = scores.shape[axis] - 1
            order = [0, *(grid.get(str(code), unknown) for code in range(len(features[feature].categories)))]
            edges.append(np.arange(1, len(features[feature].categories)).astype(float) - 0.5)
        else:
            order = list(range(scores.shape[axis] - 1))
            edges.append(np.asarray(grid, float))
        scores, counts = np.take(scores, order, axis), np.take(counts, order, axis)
    return Term(of, tuple(edges), scores, counts)
