"""The service `durations`: it foretells how long a job takes from its submission and the jobs that have ended."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ...estimators.durations.bands import Bands
from ...estimators.durations.features import FIRST_SPREAD, START, UNKNOWN_S, JobFeatures, Row
from ...estimators.durations.model import Fitting, Form, Kind, Length, LengthModel, our_length, refit_lengths
from ...estimators.durations.rows import EndedRows
from ...estimators.durations.sums import NAMES, Sums
from ...estimators.foretold import Foretold
from ...estimators.interpretable import corrections as changing
from ...estimators.interpretable.table import named, position
from ...estimators.job_history import EndedJob, SubmittedJob
from .contract import Fact, Service
from .registry import register

LEAST_S, MOST_S = 1.0, 1e10


class DurationOptions(BaseModel):
    """What an operator may set.

    form: `ours`, or `published` as in Helios (SC'21): the blend of rolling mean and trees.
    model: `boosted` trees, or `additive`: sums that people can read and correct; of form ours.
    corrections: of the additive model, as `coadapt models constrain` writes them; they outlive every fit.
    lambda: weight of the rolling mean in the published blend, 0..1.
    decay: weight of a job beside the next in the mean of its owner's jobs of that name, 0..1.
    similarity: from which on two names are one, 0..1.
    refit_h: hours between two fits of the trees.
    most_jobs: the trees are fitted to so many jobs, the newest.
    utc_offset_h: from UTC to the clock that people submit by, hours.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    form: Form = Form.OURS
    model: Kind = Kind.BOOSTED
    corrections: tuple[dict[str, Any], ...] = ()
    lambda_: float = Field(default=0.1, ge=0, le=1, alias="lambda")
    decay: float = Field(default=0.8, ge=0, le=1)
    similarity: float = Field(default=0.6, ge=0, le=1)
    refit_h: float = Field(default=24.0, gt=0)
    most_jobs: int = Field(default=200_000, ge=1000)
    utc_offset_h: float = Field(default=0.0, ge=-14, le=14)
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _goes_together(self) -> DurationOptions:
        if self.model is Kind.ADDITIVE and self.form is not Form.OURS:
            raise ValueError("model: additive goes with form ours")
        if self.corrections and self.model is not Kind.ADDITIVE:
            raise ValueError("corrections: go with model additive")
        for one in changing.read(self.corrections):
            for name in [one.feature] if isinstance(one, changing.Monotone) else one.within:
                position(named(list(NAMES.values())), name)
        return self


@register("durations")
class Durations(Service):
    """Learns lengths from ended jobs. Rolling means count at once; trees are fitted anew every `refit_h`."""

    Options = DurationOptions

    def __init__(self, options: DurationOptions | None = None) -> None:
        self.options = options or DurationOptions()
        self._features = JobFeatures(
            self.options.decay, self.options.similarity, 3600.0 * self.options.utc_offset_h
        )
        self._rows, self._bands = EndedRows(self.options.most_jobs), Bands()
        self._under_way: dict[str, tuple[Row, Length]] = {}  # by job id: its row and its forecast
        self._model: LengthModel | None = None
        self._next_fit_s = -math.inf
        self._ended = self._seen = 0  # jobs, and those that the last fit was given

    def observe(self, fact: Fact) -> None:
        """Count a job that has ended, or keep what is known of one that was submitted."""
        if isinstance(fact, SubmittedJob):
            self._under_way[fact.id] = self._without_trees(fact)
        if not isinstance(fact, EndedJob):
            return
        told = self._under_way.pop(fact.job.id, None)
        # Nobody told of its submission, so what is known now stands for what was known then.
        row, length = told or self._without_trees(replace(fact.job, submitted_s=fact.ended_s))
        if told is not None:
            self._bands.ended(length.typical_s, length.spread, fact.trained_s)
        self._rows.add(row.numbers, fact.trained_s, math.log(length.typical_s))
        self._ended += 1
        self._features.ended(fact)

    def forget(self, job_id: str) -> None:
        """Drop the forecast of a job from which nothing can be learned."""
        self._under_way.pop(job_id, None)

    def _without_trees(self, job: SubmittedJob) -> tuple[Row, Length]:
        """Return what is known of a job that nobody asks about, as after a restart.

        Raises: ValueError as `JobFeatures.row`.
        """
        row = self._features.row(job)
        return row, our_length(float(row.numbers[START]), row.spread)

    def foretell(self, job: SubmittedJob) -> Foretold:
        """Return how long a job takes with the GPUs it asks for, by the jobs that have ended until now."""
        row = self._features.row(job)
        length = self._length(row)
        self._under_way[job.id] = row, length
        low_s, high_s = self._bands.of(length.typical_s, length.spread)
        mean_s = length.mean_s
        return Foretold(
            mean_s,
            max(min(low_s, mean_s), LEAST_S / 10),
            min(max(high_s, mean_s), 10 * MOST_S),
            row.basis,
            self._sum(row, length),
        )

    def _sum(self, row: Row, length: Length) -> str:
        """Return a forecast as a sum, where the model is one."""
        if self._model is None or not isinstance(self._model.trees, Sums):
            return ""
        return self._model.trees.told(row.numbers, length.typical_s, length.mean_s)

    def _length(self, row: Row) -> Length:
        if self.options.form is Form.OURS:
            if self._model is None:
                return our_length(float(row.numbers[START]), row.spread)
            return self._model.of(row.numbers)
        mean_s = UNKNOWN_S if row.rolling_s is None else row.rolling_s
        if (
            self._model is not None and (by_trees := self._model.of(row.numbers).mean_s) > 0
        ):  # as the authors' code
            mean_s = self.options.lambda_ * mean_s + (1 - self.options.lambda_) * by_trees
        mean_s = min(max(mean_s, LEAST_S), MOST_S)
        return Length(mean_s, mean_s, FIRST_SPREAD)

    def fit_due(self, now: float) -> bool:
        """Return whether `refit_h` have passed."""
        return now >= self._next_fit_s

    def fitting(self, now: float) -> Callable[[], LengthModel | None]:
        """Return a fit to the jobs that have ended by now."""
        self._next_fit_s = now + 3600.0 * self.options.refit_h
        fresh, self._seen = self._ended - self._seen, self._ended
        of = self.options
        how = Fitting(of.form, of.seed, of.model, self._features.codes, changing.read(of.corrections))
        return partial(refit_lengths, how, self._rows.newest(), self._model, fresh)

    def take(self, model: LengthModel | None) -> None:
        """Use a model from now on; None: too few jobs had ended, or it is worse than the one in use."""
        if model is not None:
            self._model = model

    def document(self) -> Mapping[str, Any] | None:
        """Return trees and codes; None before the first fit."""
        return None if self._model is None else {**self._model.to_json(), "codes": self._features.codes}

    def read(self, document: Mapping[str, Any]) -> None:
        """Use trees and codes that `document` returned. Raises ValueError for anything else."""
        model = LengthModel.read(document)
        if model.form is not self.options.form:
            raise ValueError(f"lengths: the model is of form {model.form}, and {self.options.form} is wanted")
        if model.kind is not self.options.model:
            raise ValueError(f"lengths: the model is {model.kind}, and {self.options.model} is wanted")
        if isinstance(model.trees, Sums):  # what people want now counts, not what they wanted when it was fitted
            changed = Sums(model.trees.fitted, changing.read(self.options.corrections))
            _ = changed.model
            model = replace(model, trees=changed)
        codes = document.get("codes")
        if not isinstance(codes, dict) or set(codes) != {"owner", "pool", "name"}:
            raise ValueError("lengths: codes of owner, pool and name are missing")
        self._features.use_codes(codes)
        self._model = model
