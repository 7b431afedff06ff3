"""Will jobs of a team arrive within a window: one classifier a window, for all teams. Pure.

Source: "Anticipatory Resource Allocation for ML Training", section 5.2. What is foretold for a window holds for
longer ones, too. A new model is taken where it is no worse on days that neither was fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import boosted
from ..boosted import Trees
from .features import DAY_S, NAMES, arrive, features, only
from .past import Floats, TeamPast

STEP_S = 300.0  # between the moments that are learned from
TREES = 50
SETTINGS: Mapping[str, Any] = {"objective": "binary", "num_leaves": 31, "learning_rate": 0.05}
LEAST_ROWS, MOST_LEAST_ROWS = 20, 500  # of a leaf; between the two it is a hundredth of all
MOST_ROWS = 300_000
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Arriving:
    """Fitted trees by window in s. until_s: nothing that came later was learned from."""

    trees: Mapping[float, Trees]
    until_s: float

    @property
    def windows_s(self) -> tuple[float, ...]:
        return tuple(self.trees)

    def window_of(self, horizon_s: float) -> float | None:
        """Return the window that a horizon lies in; None: it is longer than all."""
        return next((window_s for window_s in self.trees if horizon_s <= window_s), None)

    def said(self, pasts: Sequence[TeamPast], at_s: Floats) -> dict[float, Bools]:
        """Return, by window, (teams, moments) whether jobs are foretold to arrive within it, or a shorter one."""
        said, found = np.zeros(len(pasts) * len(at_s), np.bool_), dict[float, Bools]()
        for window_s, trees in self.trees.items():
            if len(said):
                rows = np.concatenate([features(past, at_s, window_s) for past in pasts])
                said = said | (trees.predict(rows) >= 0.5)
            found[window_s] = said.reshape(len(pasts), len(at_s))
        return found

    def to_json(self) -> Mapping[str, Any]:
        """Return the model as plain JSON values."""
        trees = [{"window_s": window_s, "trees": one.text} for window_s, one in self.trees.items()]
        return {"features": list(NAMES), "until_s": self.until_s, "windows": trees}

    @classmethod
    def read(cls, document: Mapping[str, Any], windows_s: Sequence[float]) -> Arriving:
        """Return what `to_json` wrote. Raises ValueError, in one sentence, for anything else."""
        try:
            names, until_s = tuple(document["features"]), float(document["until_s"])
            trees = {float(one["window_s"]): Trees(one["trees"]) for one in document["windows"]}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"team_load: is no such model: {type(error).__name__}: {error}") from None
        if names != NAMES:
            raise ValueError("team_load: the model is of other features; it is of another version of coadapt")
        if tuple(trees) != tuple(windows_s):
            has, wanted = (", ".join(f"{s:g}" for s in some) or "none" for some in (trees, windows_s))
            raise ValueError(f"team_load: the model is of windows of {has} s, and {wanted} are wanted")
        for one in trees.values():
            one.checked(len(NAMES))
        return cls(trees, until_s)


def moments(since_s: float, until_s: float, teams: int, most_rows: int = MOST_ROWS) -> Floats:
    """Return the moments of a span that are learned from: every 5 min, or fewer if these are too many rows."""
    count = max(math.floor((until_s - since_s) / STEP_S), 0)
    stride = max(math.ceil(count * teams / most_rows), 1)
    return since_s + STEP_S * np.arange(0, count, stride, dtype=float)


def fit_one(
    pasts: Iterable[TeamPast], at_s: Floats, window_s: float, names: Sequence[str] = NAMES, *, seed: int = 0
) -> Trees | None:
    """Fit the classifier of a window to moments whose windows have passed. None: they all came out alike.

    Args:
        names: features that it may use.
    """
    listed = list(pasts)
    came = np.concatenate([arrive(past, at_s, window_s) for past in listed]).astype(float)
    if not 0 < came.sum() < len(came):
        return None
    rows = only(np.concatenate([features(past, at_s, window_s) for past in listed]), names)
    settings = {
        **SETTINGS,
        "min_data_in_leaf": min(max(len(rows) // 100, LEAST_ROWS), MOST_LEAST_ROWS),
        "scale_pos_weight": float((len(came) - came.sum()) / came.sum()),
    }
    return boosted.fit(rows, came, settings=settings, trees=TREES, seed=seed)


def fit(
    pasts: Sequence[TeamPast], since_s: float, until_s: float, windows_s: Sequence[float], *, seed: int = 0
) -> Arriving | None:
    """Fit to what came from `since_s` up to `until_s`. None: too little is known."""
    trees = dict[float, Trees]()
    for window_s in windows_s:
        at_s = moments(since_s, until_s - window_s, len(pasts))
        one = fit_one(pasts, at_s, window_s, seed=seed) if len(at_s) and pasts else None
        if one is None:
            return None
        trees[window_s] = one
    return Arriving(trees, until_s)


def refit(
    pasts: Sequence[TeamPast],
    since_s: float,
    now: float,
    windows_s: Sequence[float],
    in_use: Arriving | None,
    *,
    seed: int = 0,
) -> Arriving | None:
    """Fit anew. Return None if too little is known, and for a model that is worse than the one in use.

    The newest day, and the longest window, is held back from it. So neither was fitted to the days that decide. At
    first what is in use is that jobs always arrive.
    """
    held_s = now - DAY_S - max(windows_s)
    if in_use is not None and held_s <= in_use.until_s:
        return None
    new = fit(pasts, since_s, held_s, windows_s, seed=seed)
    if new is None or loss(new, pasts, held_s, now, windows_s) > loss(in_use, pasts, held_s, now, windows_s):
        return None
    return new


def loss(
    model: Arriving | None, pasts: Sequence[TeamPast], since_s: float, now: float, windows_s: Sequence[float]
) -> float:
    """Return the mean over windows of the mean of missed arrivals and false alarms, as parts of their kind.

    model: None: jobs always arrive.
    """
    found = 0.0
    for window_s in windows_s:
        at_s = moments(since_s, now - window_s, len(pasts))
        came = np.concatenate([arrive(past, at_s, window_s) for past in pasts])
        said = np.ones(len(came), np.bool_) if model is None else model.said(pasts, at_s)[window_s].ravel()
        wrong = [float((said[kind] != came[kind]).mean()) for kind in (came, ~came) if kind.any()]
        found += sum(wrong) / max(len(wrong), 1)
    return found / len(windows_s)
