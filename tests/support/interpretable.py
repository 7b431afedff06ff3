"""Models and tables that tests build by hand or from a seed."""

from __future__ import annotations

import numpy as np
from coadapt.estimators.interpretable.additive import AdditiveModel, Link, Term
from coadapt.estimators.interpretable.table import Feature, Floats, Table
from coadapt.estimators.interpretable.tree import TreeModel


def table(rows: int = 400, seed: int = 0, classes: tuple[str, ...] = (), times: bool = False) -> Table:
    """Return rows of four features: a number with missing values, a whole number, an owner and a number."""
    random = np.random.default_rng(seed)
    x = np.column_stack([
        random.normal(size=rows),
        random.integers(1, 9, rows),
        random.integers(0, 3, rows),
        random.uniform(size=rows),
    ])  # fmt: skip
    y = 2 + x[:, 0] + 0.3 * x[:, 1] + np.array([0.0, 1.0, -2.0])[x[:, 2].astype(int)] + x[:, 0] * x[:, 3]
    y += 0.1 * random.normal(size=rows)
    x[random.uniform(size=rows) < 0.05, 0] = np.nan
    if classes:
        cuts = np.quantile(y, np.linspace(0, 1, len(classes) + 1)[1:-1])
        y = np.searchsorted(cuts, y).astype(float)
    features = (
        Feature("load"),
        Feature("gpus", whole=True),
        Feature("owner", ("alice", "bob", "carol"), whole=True),
        Feature("share"),
    )
    return Table(features, x, y, "hours", classes, np.arange(rows) * 60.0 if times else None)


def additive(seed: int = 0, pairs: int = 2, link: Link = "identity") -> AdditiveModel:
    """Return a model with random scores: of a number, a whole number, a category, and pairs."""
    random = np.random.default_rng(seed)
    features = (Feature("load"), Feature("gpus", whole=True), Feature("owner", ("alice", "bob", "carol")))
    edges = (np.sort(random.normal(size=5)), np.array([1.5, 2.5, 4.5]), np.array([0.5, 1.5]))
    terms = [term((f,), (edges[f],), random) for f in range(3)]
    terms += [term((0, 1), (edges[0][::2], edges[1]), random), term((2, 0), (edges[2], edges[0]), random)][:pairs]
    classes = ("no", "yes") if link == "logit" else ()
    return AdditiveModel(features, float(random.normal()), tuple(terms), link, None, "hours", classes)


def term(features: tuple[int, ...], edges: tuple[Floats, ...], random: np.random.Generator) -> Term:
    shape = tuple(len(one) + 2 for one in edges)
    return Term(features, edges, random.normal(size=shape), random.integers(1, 20, shape).astype(float))


def rows(count: int = 200, seed: int = 1) -> Floats:
    """Return rows for `additive`: values on edges, missing ones and unknown categories among them."""
    random = np.random.default_rng(seed)
    found = np.column_stack([
        random.normal(size=count), random.integers(0, 7, count), random.integers(-1, 5, count)
    ]).astype(float)  # fmt: skip
    found[random.uniform(size=found.shape) < 0.1] = np.nan
    return found


def tree(shape: list[tuple[int, float, int, int]], costs: list[float], values: list[float]) -> TreeModel:
    """Return a tree of one feature; `shape`: (feature, threshold, left, right) of each node."""
    feature, threshold, left, right = (np.array(column) for column in zip(*shape, strict=True))
    return TreeModel(
        (Feature("x", whole=True),),
        feature.astype(np.int64),
        threshold.astype(float),
        left.astype(np.int64),
        right.astype(np.int64),
        np.zeros(len(shape), bool),
        np.array(values, float)[:, None],
        np.ones(len(shape)),
        np.array(costs, float),
    )
