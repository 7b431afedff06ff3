"""Lengths by an additive model: each forecast is a sum that a person can read, correct and trust. Pure.

It foretells the log of the length over that of like jobs, so that a score makes a job some part longer or shorter.
`told` turns the sum of logs into one of times, from the largest score to the smallest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..interpretable import additive_fit, corrections
from ..interpretable.additive import AdditiveModel
from ..interpretable.additive_fit import AdditiveSettings
from ..interpretable.corrections import Correction, corrected
from ..interpretable.model_file import of_json, to_json
from ..interpretable.table import Feature, Table
from .features import COLUMNS, PROFILE, START, Floats

# Columns that it goes by, and what people are told that they are.
NAMES: Mapping[str, str] = {
    "owner": "owner",
    "pool": "pool",
    "gpus": "gpus",
    "cpus_per_gpu": "cpus_per_gpu",
    "hour": "hour",
    "weekday": "weekday",
    "start_log": "log_of_jobs_like_it",
    "owner_name_newest_log_mean": "newest_of_its_name",
    "owner_name_last_s": "last_of_its_name",
    "owner_name_log_mean": "jobs_of_its_name",
    "owner_name_count": "count_of_its_name",
    "owner_name_since_s": "time_since_its_name",
    "owner_gpus_newest_log_mean": "newest_of_its_owner_and_gpus",
    "owner_gpus_log_mean": "jobs_of_its_owner_and_gpus",
    "owner_gpus_cpus_newest_log_mean": "newest_of_its_owner_gpus_and_cpus",
    "owner_newest_log_mean": "newest_of_its_owner",
    "owner_log_mean": "jobs_of_its_owner",
    "owner_since_s": "time_since_its_owner",
    "owner_last_s": "last_of_its_owner",
    "gpus_newest_log_mean": "newest_of_its_gpus",
    "pool_gpus_newest_log_mean": "newest_of_its_pool_and_gpus",
    "all_newest_log_mean": "newest_of_all",
    "gpu_util": "gpu_util",
    "memory_util": "memory_util",
    "memory_gib": "memory_gib",
    "mixed_precision": "mixed_precision",
}
_COLUMNS = [COLUMNS.index(name) for name in NAMES]
_CODES = ("owner", "pool")
_SHOWN = frozenset(
    {"owner", "pool", "gpus", "hour", "weekday", *PROFILE}
)  # of the others a value is a log, or a time
# Few rounds of small steps: lengths vary a thousandfold, and more rounds learn what was chance.
SETTINGS = AdditiveSettings(
    bins=64, pair_bins=16, interactions=8, learning_rate=0.05, bags=4, rounds=100, least_rows=100
)
_MOST_TOLD = 6  # terms; the others are told together
_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True)
class Sums:
    """A fitted additive model of some columns, and what people changed in it."""

    fitted: AdditiveModel
    changes: tuple[Correction, ...] = ()

    @cached_property
    def model(self) -> AdditiveModel:
        """Return the model with what people changed. Raises ValueError where a change does not go with it.

        A score of an owner who has not been seen yet waits for a fit that knows the owner.
        """
        return corrected(self.fitted, self.changes, "wait")

    def predict(self, rows: Floats) -> Floats:
        """Return (rows,) predictions; `rows`: (rows, columns of `COLUMNS`), nan where nothing is known."""
        return self.model.predict(rows[:, _COLUMNS])

    def told(self, numbers: Floats, typical_s: float, mean_s: float) -> str:
        """Return a forecast as a sum of times, as "2.2 h = 3.3 h jobs like it - 0.9 h owner alice + 0.2 h others".

        Args:
            numbers: (columns of `COLUMNS`,) of the job.
            typical_s, mean_s: what was foretold; they differ by the rare jobs that take far longer.
        """
        found = self.model.explain(numbers[_COLUMNS])
        log, parts = float(numbers[START]), list[tuple[str, float]]()
        first_s = math.exp(log)
        for name, shown, score in (("mean", "", found.mean), *found.parts):
            seconds = math.exp(log + score) - math.exp(log)
            log += score
            parts.append((f"{name} {shown}" if name in _SHOWN else name.replace("_", " "), seconds))
        shown_parts, rest = parts[:_MOST_TOLD], sum(seconds for _, seconds in parts[_MOST_TOLD:])
        rest += typical_s - math.exp(log)  # lengths are held within bounds
        shown_parts += [("others", rest), ("rare long jobs", mean_s - typical_s)]
        size, unit = next((one for one in _UNITS if mean_s >= 2 * one[0]), _UNITS[-1])
        text = f"{mean_s / size:.2g} {unit} = {first_s / size:.2g} {unit} jobs like it"
        for name, seconds in shown_parts:
            if abs(seconds) >= 0.005 * mean_s:
                text += f" {'+' if seconds > 0 else '-'} {abs(seconds) / size:.2g} {unit} {name}"
        return text

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"fit": to_json(self.fitted), "corrections": corrections.to_json(self.changes)}

    @classmethod
    def read(cls, document: Any) -> Sums:
        """Return what `to_json` wrote. Raises ValueError, in one sentence, for anything else."""
        if not isinstance(document, Mapping):
            raise ValueError("sums: is no additive model")
        fitted = of_json(document.get("fit"))
        if not isinstance(fitted, AdditiveModel):
            raise ValueError("sums: is a tree, and an additive model is accepted")
        if [one.name for one in fitted.features] != list(NAMES.values()):
            raise ValueError("sums: goes by other features than those of this version")
        found = cls(fitted, corrections.read(document.get("corrections", [])))
        _ = found.model
        return found


def features(codes: Mapping[str, Mapping[str, int]]) -> tuple[Feature, ...]:
    """Return what it goes by; `codes`: the number that stands for each owner and pool."""

    def categories(column: str) -> tuple[str, ...]:
        known = codes.get(column, {}) if column in _CODES else {}
        return tuple(sorted(known, key=known.__getitem__))

    return tuple(Feature(name, categories(column)) for column, name in NAMES.items())


def fit(
    rows: Floats,
    target: Floats,
    codes: Mapping[str, Mapping[str, int]],
    *,
    seed: int,
    changes: Sequence[Correction] = (),
    target_name: str = "log over like jobs",
) -> Sums:
    """Fit to (rows, columns of `COLUMNS`), and apply what people changed.

    Raises:
        ValueError: in one sentence, for a target that is constant, and for changes that do not go with the fit.
        LibraryMissing: where the extra `coadapt[learned]` is not installed.
    """
    table = Table(features(codes), np.ascontiguousarray(rows[:, _COLUMNS]), target, target_name)
    found = Sums(additive_fit.fit(table, SETTINGS, seed=seed, tails=None), tuple(changes))
    _ = found.model
    return found
