"""The nearest known cases that came out otherwise, and the features in which they differ.

Source: Primo, ATC'22, section on the counterfactual guide. Distances are Euclidean, of features scaled to 0..1.
A k-d tree stands in for the text's ball tree: both find what looking at every row finds, and scipy has this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from .table import Feature, Floats, checked_rows

NEIGHBOURS = 3
_REACH = 1 + 1e-9  # a search by distance finds rows that are as far to the last bit


@dataclass(frozen=True)
class Counterfactual:
    """A known case. `differences`: (feature, value of the case asked about, value of this one), by distance."""

    row: int
    distance: float
    answer: float
    differences: tuple[tuple[str, float, float], ...]


def nearest(
    features: Sequence[Feature], rows: Floats, answers: Floats, case: Floats, wanted: float, k: int = NEIGHBOURS
) -> list[Counterfactual]:
    """Return the k rows nearest to a case whose answer is the wanted one, the nearest first, then by position.

    Args:
        rows: (rows, features) of known cases; answers: (rows,) what came of them.
        case: (features,). A value that is missing on one side only is as far away as can be.

    Raises:
        ValueError: in one sentence, for k below 1 or above the rows with that answer.
    """
    known = checked_rows(features, rows)
    chosen = np.flatnonzero(answers == wanted)
    if not 1 <= k <= len(chosen):
        raise ValueError(
            f"k: {k} is not accepted, must be from 1 to {len(chosen)}, the rows whose answer is {wanted:g}"
        )
    scaled, point = _scaled(features, known, case)
    tree = cKDTree(scaled[chosen])
    farthest = float(np.atleast_1d(tree.query(point, k)[0])[-1])
    near = chosen[tree.query_ball_point(point, farthest * _REACH + 1e-300)]
    distances = np.sqrt(((scaled[near] - point) ** 2).sum(axis=1))
    order = np.lexsort((near, distances.round(12)))[:k]  # rows are as far but for rounding
    found = []
    for i in order:
        row = int(near[i])
        differences = _differences(features, case, known[row], scaled[row] - point)
        found.append(Counterfactual(row, float(distances[i]), wanted, differences))
    return found


def _scaled(features: Sequence[Feature], rows: Floats, case: Floats) -> tuple[Floats, Floats]:
    """Return rows and the case with features from 0 to 1, and a column more of what is missing in each."""
    every = np.vstack([rows, case])
    parts = []
    for feature, column in zip(features, every.T, strict=True):
        missing = np.isnan(column)
        if feature.categories:  # two categories are as far from each other as any two
            hot = (column[:, None] == np.arange(len(feature.categories))) / np.sqrt(2)
            parts += [hot, missing[:, None] / np.sqrt(2)]
            continue
        low = np.nanmin(column, initial=np.inf)
        width = np.nanmax(column, initial=-np.inf) - low
        level = np.where(missing, 0.0, (column - low) / width if width > 0 else 0.0)
        parts += [level[:, None], missing[:, None]]
    found = np.hstack([np.asarray(part, float) for part in parts])
    return found[:-1], found[-1]


def _differences(
    features: Sequence[Feature], case: Floats, other: Floats, apart: Floats
) -> tuple[tuple[str, float, float], ...]:
    found, at = [], 0
    for number, feature in enumerate(features):
        width = (len(feature.categories) or 1) + 1
        far = float((apart[at : at + width] ** 2).sum())
        at += width
        if far > 0:
            found.append((far, (feature.name, float(case[number]), float(other[number]))))
    found.sort(key=lambda one: -one[0])
    return tuple(one for _, one in found)
