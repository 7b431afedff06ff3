"""Searches for the settings of trees and additive models, judged on rows that the fit has not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from . import additive_fit, tree_fit
from .additive import AdditiveModel
from .additive_fit import AdditiveSettings
from .corrections import Model
from .search import Dimension, Found, Point, folds, score, search
from .table import Floats, Table
from .tree import Cost, TreeModel

TREES = (Dimension("alpha", 1e-8, 1e-1, log=True), Dimension("least_rows", 1, 100, log=True, whole=True))
ADDITIVE = (
    Dimension("bins", 2, 256, log=True, whole=True),
    Dimension("interactions", 0, 20, whole=True),
    Dimension("learning_rate", 0.005, 0.5, log=True),
    Dimension("least_rows", 1, 100, log=True, whole=True),
)
FOLDS = 3


@dataclass(frozen=True)
class Searching:
    """How settings are searched.

    budget: trials. lambda_: what complexity costs; gamma: the power that it is taken to. cost: of trees.
    """

    budget: int = 20
    lambda_: float = 0.0
    gamma: float = 0.5
    seed: int = 0
    at_once: int = 1
    cost: Cost | None = None

    def __post_init__(self) -> None:
        score(0.0, 1.0, self.lambda_, self.gamma)
        if self.budget < 1:
            raise ValueError(f"budget: {self.budget} is not accepted, must be a whole number of at least 1")


@dataclass(frozen=True)
class Tuned:
    """The model with the best settings, fitted to all rows; its performance on held-back rows; what was tried."""

    model: Model
    performance: float
    found: Found


def performance(model: Model, table: Table) -> float:
    """Return how well a model says the rows of a table, higher is better.

    It is the share of right classes; of numbers, minus the mean absolute error as a share of that of the median.
    """
    if table.classes:
        said = model.classified(table.rows) if isinstance(model, AdditiveModel) else model.predict(table.rows)
        return float((said == table.target).mean())
    return -float(np.abs(model.predict(table.rows) - table.target).mean() / _usual(table.target))


def _usual(target: Floats) -> float:
    return float(np.abs(target - np.median(target)).mean()) or 1.0


def tuned_tree(table: Table, how: Searching | None = None) -> Tuned:
    """Search the price of a leaf and the least rows of one. Raises ValueError as `search` and `fit` do."""
    how = how or Searching()
    cost: Cost = how.cost or ("error" if table.classes else "impurity")
    parts = list(folds(table, FOLDS, how.seed))
    scale = (
        1.0 if table.classes else float(np.var(table.target))
    )  # the price is of a cost that has the target's unit
    grown: dict[tuple[int, int], TreeModel] = {}

    def fitted(point: Point, fold: int) -> TreeModel:
        key = (fold, int(point["least_rows"]))
        if key not in grown:  # one tree is pruned at many prices
            taught = table.of(parts[fold][0])
            grown[key] = tree_fit.grow(taught, cost=cost, least_rows=key[1], seed=how.seed)
        return grown[key].pruned(point["alpha"] * scale)

    def objective(point: Point) -> float:
        trees = [fitted(point, fold) for fold in range(FOLDS)]
        said = np.mean([performance(tree, table.of(held)) for tree, (_, held) in zip(trees, parts, strict=True)])
        return score(float(said), float(np.mean([tree.complexity for tree in trees])), how.lambda_, how.gamma)

    default = {"alpha": TREES[0].low, "least_rows": 1.0}
    found = search(objective, TREES, how.budget, seed=how.seed, known=[default], at_once=how.at_once)
    best = found.best.point
    model = tree_fit.fit(
        table, best["alpha"] * scale, cost=cost, least_rows=int(best["least_rows"]), seed=how.seed
    )
    return Tuned(
        model, float(np.mean([performance(fitted(best, f), table.of(parts[f][1])) for f in range(FOLDS)])), found
    )


def tuned_additive(table: Table, how: Searching | None = None, start: AdditiveSettings | None = None) -> Tuned:
    """Search bins, interactions, learning rate and least rows. Raises ValueError as `search` and `fit` do.

    Args:
        start: settings that are tried first; those that are not searched are kept.
    """
    how, start = how or Searching(), start or AdditiveSettings()
    parts = list(folds(table, FOLDS, how.seed))

    def objective(point: Point) -> float:
        settings = replace(settings_at(point, start), bags=1)  # one bag tells which settings are better
        models = [additive_fit.fit(table.of(taught), settings, seed=how.seed, tails=None) for taught, _ in parts]
        said = np.mean(
            [performance(model, table.of(held)) for model, (_, held) in zip(models, parts, strict=True)]
        )
        return score(float(said), float(np.mean([model.complexity for model in models])), how.lambda_, how.gamma)

    default = {one.name: float(getattr(start, one.name)) for one in ADDITIVE}
    found = search(objective, ADDITIVE, how.budget, seed=how.seed, known=[default], at_once=how.at_once)
    model = additive_fit.fit(table, settings_at(found.best.point, start), seed=how.seed)
    return Tuned(model, found.best.score, found)


def settings_at(point: Point, start: AdditiveSettings) -> AdditiveSettings:
    """Return settings of an additive model at a point of the search."""
    return replace(
        start,
        bins=int(point["bins"]),
        interactions=int(point["interactions"]),
        learning_rate=point["learning_rate"],
        least_rows=int(point["least_rows"]),
    )
