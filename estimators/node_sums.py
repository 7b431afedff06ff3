"""Sums in place of boosted trees, in the forecast of running nodes. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .interpretable import additive_fit
from .interpretable.additive import AdditiveModel
from .interpretable.additive_fit import AdditiveSettings
from .interpretable.model_file import of_json, to_json
from .interpretable.table import Table, named
from .node_features import NAMES
from .node_series import Floats

# The features that people would look at: how counts have moved of late, a day and a week ago, and when it is.
USED = (
    "lag_1", "lag_3", "lag_6", "lag_18", "lag_36", "lag_72", "lag_144", "lag_138", "lag_126", "lag_1008",
    "lag_1002", "lag_990", "mean_6", "mean_36", "mean_144", "std_18", "std_144", "max_18", "max_144", "min_36",
    "hour", "day_of_week", "holiday", "level",
)  # fmt: skip
_COLUMNS = [NAMES.index(name) for name in USED]
SETTINGS = AdditiveSettings(
    bins=32, pair_bins=8, interactions=3, learning_rate=0.05, bags=1, rounds=60, least_rows=100
)


@dataclass(frozen=True)
class NodeSums:
    """A fitted additive model of `USED`. above: added to what it says, for a quantile."""

    model: AdditiveModel
    above: float = 0.0

    def predict(self, rows: Floats) -> Floats:
        """Return (rows,) predictions; `rows`: (rows, features of `NAMES`), nan where nothing is known."""
        return self.model.predict(rows[:, _COLUMNS]) + self.above

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"fit": to_json(self.model), "above": self.above}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> NodeSums:
        """Return what `to_json` wrote. Raises ValueError, in one sentence, for anything else."""
        model, above = of_json(document.get("fit")), document.get("above")
        if not isinstance(model, AdditiveModel) or [one.name for one in model.features] != list(USED):
            raise ValueError("sums: go by other features than those of this version")
        if isinstance(above, bool) or not isinstance(above, int | float) or not math.isfinite(above):
            raise ValueError(f"sums: above: {above!r} is not accepted, must be a finite number")
        return cls(model, float(above))


def fit_sums(
    rows: Floats, target: Floats, times_s: Floats, *, seed: int, weights: Floats, certainty: float | None = None
) -> NodeSums | None:
    """Fit to (rows, features of `NAMES`). Return None for a target that is constant.

    Args:
        certainty: of a quantile: residuals of the newer rows, of a fit to the older ones, say how far above.

    Raises:
        LibraryMissing: where the extra `coadapt[learned]` is not installed.
    """
    if len(target) < 2 or np.ptp(target) == 0:
        return None
    table = Table(named(USED), np.ascontiguousarray(rows[:, _COLUMNS]), target, "change of nodes", (), times_s)
    tails = None if certainty is None else (1 - certainty, certainty)
    model = additive_fit.fit(table, SETTINGS, seed=seed, weights=weights, tails=tails)
    return NodeSums(model, 0.0 if model.band is None else model.band[1])
