"""Models that foretell the length of a job: boosted trees in our form and in the published one, or sums. Pure.

Ours fits the log of the length over what like jobs took, with few, strongly shrunk trees. A second ensemble fits
how far off forecasts were, so that jobs of a steady owner have narrow bands. The published form (Helios, SC'21)
fits seconds by what the submission says alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from .. import boosted
from ..boosted import Trees
from ..interpretable.corrections import Correction
from . import sums
from .features import ABOUT, CODES, COLUMNS, FIRST_SPREAD, START, Floats
from .rows import EndedColumns
from .sums import Sums


class Kind(StrEnum):
    """What a model in our form is made of: boosted trees, or an additive model that people can read."""

    BOOSTED = "boosted"
    ADDITIVE = "additive"


class Form(StrEnum):
    """How lengths are learned."""

    OURS = "ours"
    PUBLISHED = "published"


LEAST_JOBS = 200  # that have ended, before trees are fitted
_OURS: Mapping[str, Any] = {
    "objective": "regression", "learning_rate": 0.05, "num_leaves": 31, "min_data_in_leaf": 100, "max_bin": 63,
    "bagging_fraction": 0.7, "bagging_freq": 1, "feature_fraction": 0.7,
}  # fmt: skip
_SPREAD: Mapping[str, Any] = {**_OURS, "learning_rate": 0.1}
_OUR_TREES = 20
_PUBLISHED: Mapping[str, Any] = {"objective": "regression"}  # LightGBM's defaults, as nothing else is told
_PUBLISHED_TREES = 100
LEAST_SPREAD = 0.05  # of the log of a length
MOST_OVER_TYPICAL = 2.0  # of the log: a mean is at most so far above the typical length
_DEVIATION = math.sqrt(math.pi / 2)  # standard deviation over mean absolute error, of a normal error


@dataclass(frozen=True)
class Length:
    """A forecast. `spread`: standard deviation of the log of the length; the mean counts rare long jobs, too."""

    typical_s: float
    mean_s: float
    spread: float


@dataclass(frozen=True)
class LengthModel:
    """Fitted trees or sums. `spread`: those of the spread, in our form."""

    form: Form
    trees: Trees | Sums
    spread: Trees | Sums | None = None

    @property
    def kind(self) -> Kind:
        return Kind.ADDITIVE if isinstance(self.trees, Sums) else Kind.BOOSTED

    def _logs(self, rows: Floats) -> Floats:
        """Return (rows,) logs of typical lengths, in our form. They go on from those of like jobs."""
        return rows[:, START] + self.trees.predict(rows)

    def of(self, numbers: Floats) -> Length:
        """Return the forecast for a row, (columns of `COLUMNS`,).

        Published: the mean alone, which may be 0 or less, as its trees know no bound.
        """
        if self.spread is None:
            mean_s = float(self.trees.predict(numbers[None, : len(ABOUT)])[0])
            return Length(mean_s, mean_s, FIRST_SPREAD)
        log = float(self._logs(numbers[None])[0])
        return our_length(log, _DEVIATION * float(self.spread.predict(numbers[None])[0]))

    def loss(self, ended: EndedColumns) -> float:
        """Return the mean error of the log of a length, of jobs that the model was not fitted to."""
        if self.form is Form.PUBLISHED:
            logs = np.log(np.maximum(self.trees.predict(ended.rows[:, : len(ABOUT)]), 1.0))
        else:
            logs = self._logs(ended.rows)
        return float(np.abs(logs - np.log(np.maximum(ended.seconds, 1.0))).mean())

    def to_json(self) -> Mapping[str, Any]:
        """Return the model as plain JSON values."""
        return {
            "form": str(self.form),
            "trees": _to_json(self.trees),
            "spread": None if self.spread is None else _to_json(self.spread),
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> LengthModel:
        """Return the model that `to_json` wrote. Raises ValueError, in one sentence, for any other document."""
        try:
            form = Form(document["form"])
            if form is Form.PUBLISHED:
                return cls(form, Trees(document["trees"]).checked(len(ABOUT)))
            return cls(form, _read(document["trees"]), _read(document["spread"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"lengths: is no such model: {type(error).__name__}: {error}") from None


def _to_json(model: Trees | Sums) -> Any:
    return model.to_json() if isinstance(model, Sums) else model.text


def _read(document: Any) -> Trees | Sums:
    return Trees(document).checked(len(COLUMNS)) if isinstance(document, str) else Sums.read(document)


def our_length(log: float, spread: float) -> Length:
    """Return a log-normal forecast. `log`: of the typical length in seconds."""
    spread = max(spread, LEAST_SPREAD)
    typical_s = math.exp(min(max(log, 0.0), 25.0))
    return Length(typical_s, typical_s * math.exp(min(spread**2 / 2, MOST_OVER_TYPICAL)), spread)


@dataclass(frozen=True)
class Fitting:
    """How lengths are fitted. codes: of owners and pools; changes: of people, for sums."""

    form: Form
    seed: int = 0
    kind: Kind = Kind.BOOSTED
    codes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    changes: tuple[Correction, ...] = ()


def refit_lengths(how: Fitting, ended: EndedColumns, in_use: LengthModel | None, fresh: int) -> LengthModel | None:
    """Fit anew. Return None for too few jobs, and for a model that is worse than the one in use.

    The newer half of the jobs that ended since the last fit is held back, and both models foretell it. If the new
    one is no worse, it is fitted once more, to all jobs.

    Args:
        fresh: jobs that ended since the last fit.
    """
    held_back = min(fresh // 2, len(ended.seconds))
    if in_use is not None and held_back:
        taught = EndedColumns(*(column[:-held_back] for column in ended))
        judged = EndedColumns(*(column[-held_back:] for column in ended))
        new = fit_lengths(how, taught)
        if new is None or new.loss(judged) > in_use.loss(judged):
            return None
    return fit_lengths(how, ended)


def fit_lengths(how: Fitting, ended: EndedColumns) -> LengthModel | None:
    """Fit to jobs that have ended. Return None for fewer than `LEAST_JOBS`."""
    if len(ended.seconds) < LEAST_JOBS:
        return None
    form, seed = how.form, how.seed
    seconds = np.maximum(ended.seconds, 1.0)
    if form is Form.PUBLISHED:
        rows = ended.rows[:, : len(ABOUT)]
        trees = boosted.fit(
            rows, seconds, settings=_PUBLISHED, trees=_PUBLISHED_TREES, seed=seed, categorical=CODES
        )  # fmt: skip
        return LengthModel(form, trees)
    logs = np.log(seconds)
    off = np.abs(logs - ended.forecast_logs)
    if how.kind is Kind.ADDITIVE:
        over = logs - ended.rows[:, START]
        if np.ptp(over) == 0 or np.ptp(off) == 0:
            return None
        lengths = sums.fit(ended.rows, over, how.codes, seed=seed, changes=how.changes)
        return LengthModel(form, lengths, sums.fit(ended.rows, off, how.codes, seed=seed, target_name="error"))

    def fitted(target: Floats, settings: Mapping[str, Any]) -> Trees:
        return boosted.fit(
            ended.rows, target, settings=settings, trees=_OUR_TREES, seed=seed, categorical=CODES
        )  # fmt: skip

    over_start = fitted(logs - ended.rows[:, START], _OURS)
    return LengthModel(form, over_start, fitted(off, _SPREAD))
