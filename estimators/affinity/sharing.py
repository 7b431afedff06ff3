"""The Sharing Score of a job by a pruned tree over what it uses of its GPUs alone. Pure.

Source: Lucid, ASPLOS'23, section on the packing analyze model; minimal cost-complexity pruning. The tree that
comes with the package labels jobs by `pair_speeds.default()`: each by its mean speed beside partners of every GPU
utilisation alike. A job of which no utilisation is known is jumbo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ..interpretable import model_file, tree_fit
from ..interpretable.table import Floats, Ints, Table
from ..interpretable.tree import Rule, TreeModel
from .labels import Score, Thresholds, Whose, labels, mean_speeds
from .pair_speeds import PairSpeeds
from .pair_table import PairTable
from .uses import FEATURES, GPU_UTIL, UNKNOWN

CLASSES = tuple(one.name.lower() for one in Score)
DEFAULT = Path(__file__).with_name("sharing_score.json")
ALPHA = 0.01  # share of wrong labels that one more leaf must save
_PARTNERS = 51  # of every GPU utilisation, for labels of foretold speeds
_JOBS = 401


@dataclass(frozen=True)
class SharingScores:
    """A tree that tells tiny, medium and jumbo jobs apart."""

    tree: TreeModel

    def __post_init__(self) -> None:
        if [one.name for one in self.tree.features] != [one.name for one in FEATURES]:
            raise ValueError(
                f"sharing score: the model is of other features; {', '.join(one.name for one in FEATURES)} are "
                "accepted"
            )
        if self.tree.classes != CLASSES:
            raise ValueError(f"sharing score: the model tells other classes; {', '.join(CLASSES)} are accepted")

    def of(self, uses: Floats) -> Ints:
        """Return (jobs,) scores 0, 1 and 2 of (jobs, features of `uses`)."""
        return self.tree.predict(uses).astype(np.int64)

    def explain(self, use: Floats) -> tuple[list[str], str]:
        """Return the tests that one job, (features,), passes, and the answer."""
        return self.tree.explain(use)

    def rules(self) -> list[Rule]:
        """Return one rule per leaf."""
        return self.tree.rules()


def fit(uses: Floats, scores: Ints | Floats, *, alpha: float = ALPHA, seed: int = 0) -> SharingScores:
    """Fit to (jobs, features of `uses`) with scores, (jobs,).

    Args:
        alpha: share of wrong labels that one more leaf must save; 0: the tree is not pruned where that costs any.

    Raises:
        ValueError: in one sentence, for scores that are not 0, 1 or 2, for one score alone, and for alpha < 0.
        LibraryMissing: where the extra `coadapt[learned]` is not installed.
    """
    if not np.isin(scores, list(Score)).all():
        raise ValueError("sharing score: a label is not accepted, must be 0, 1 or 2")
    table = Table(FEATURES, np.asarray(uses, float), np.asarray(scores, float), "sharing score", CLASSES)
    return SharingScores(tree_fit.fit(table, alpha, seed=seed))


def fit_to_pairs(
    pairs: PairTable,
    thresholds: Thresholds | None = None,
    whose: Whose = Whose.OWN,
    *,
    alpha: float = ALPHA,
    seed: int = 0,
) -> SharingScores:
    """Fit to jobs as the rule labels them, by their measured pairs. Jobs without any are left out; see `fit`."""
    speeds = mean_speeds(pairs, whose)
    known = ~np.isnan(speeds)
    return fit(pairs.uses[known], labels(speeds[known], thresholds), alpha=alpha, seed=seed)


def fit_to_speeds(speeds: PairSpeeds, thresholds: Thresholds | None = None, *, seed: int = 0) -> SharingScores:
    """Fit to jobs of every GPU utilisation, each labelled by its mean foretold speed beside partners of every one.

    A job without a known utilisation is jumbo.
    """
    jobs, partners = _of_utils(np.linspace(0, 1, _JOBS)), _of_utils(np.linspace(0, 1, _PARTNERS))
    scores = labels(speeds.matrix(jobs, partners).mean(axis=1), thresholds)
    unknown = _of_utils(np.full(_JOBS // 4, np.nan))
    uses = np.concatenate([jobs, unknown])
    uses[:, np.arange(len(FEATURES)) != GPU_UTIL] = 0.0  # no test goes by what is constant
    return fit(uses, np.concatenate([scores, np.full(len(unknown), int(Score.JUMBO))]), alpha=0.0, seed=seed)


def _of_utils(utils: Sequence[float] | Floats) -> Floats:
    rows = np.tile(UNKNOWN, (len(utils), 1))
    rows[:, GPU_UTIL] = utils
    return rows


def read(path: Path) -> SharingScores:
    """Return the tree of a file, with what people changed in it.

    Raises:
        ValueError: in one sentence, for a file that is torn, no tree, or of other features or classes.
    """
    tree = model_file.read(path).model
    if not isinstance(tree, TreeModel):
        raise ValueError(f"{path}: holds an additive model, and a tree is accepted")
    try:
        return SharingScores(tree)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


@cache
def default() -> SharingScores:
    """Return the tree that comes with the package; see the head of this file for what it knows."""
    return read(DEFAULT)
