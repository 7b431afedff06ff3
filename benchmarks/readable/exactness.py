"""Exactness: sums add up, files are read back to the bit, and two fits with one seed are the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from coadapt.estimators.interpretable import additive_fit, model_file, tree_fit
from coadapt.estimators.interpretable.model_file import Kept

from ..harness import table
from .tasks import task


def figures() -> dict[str, float]:
    """Return the largest differences over tasks."""
    rows = []
    for name in ("arrivals", "breast_cancer"):
        of = task(name)
        one, two = (additive_fit.fit(of.taught, of.settings, seed=1, tails=None) for _ in range(2))
        trees = [tree_fit.fit(of.taught, 1e-4, seed=1) for _ in range(2)]
        asked = of.judged.rows
        summed = one.mean + one.contributions(asked).sum(axis=1)
        additivity = float(np.abs(summed - one.scores(asked)).max())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.json"
            apart = 0.0
            for model in (one, trees[0]):
                model_file.write(path, Kept(model))
                again = model_file.read(path).model
                apart = max(apart, float(np.abs(again.predict(asked) - model.predict(asked)).max()))
        refit = max(
            float(np.abs(a.predict(asked) - b.predict(asked)).max()) for a, b in ((one, two), (trees[0], trees[1]))
        )
        rows.append([name, additivity, apart, refit])
    table("Exactness: largest differences", ["task", "mean and scores", "file", "refit"], rows)
    names = ("additivity_max_err", "file_diff", "refit_diff")
    return {name: max(float(row[i + 1]) for row in rows) for i, name in enumerate(names)}
