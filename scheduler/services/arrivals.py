"""The service `arrivals`: it foretells how many jobs, and GPUs with them, are submitted in the next hour."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from ...estimators.arrivals import SETTINGS, ArrivalForecast, ArrivalSeries, refit
from ...estimators.job_history import SubmittedJob
from ...estimators.node_features import Calendar
from ...estimators.node_series import SLOT_S
from ...policies.contract.arrivals import Arrivals
from .contract import Fact, Service
from .registry import register

SLOTS_A_DAY = round(86_400 / SLOT_S)
AHEAD = 5  # slots whose mean is told


class ArrivalOptions(BaseModel):
    """What an operator may set.

    refit_h: hours between two fits.
    days: so many of the newest days are learned from.
    trees: of each sum; more take longer to fit.
    utc_offset_h: from UTC to the clock that people submit by, hours.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    refit_h: float = Field(default=168.0, gt=0)
    days: int = Field(default=90, ge=3)
    trees: int = Field(default=SETTINGS.trees, ge=1)
    utc_offset_h: float = Field(default=0.0, ge=-14, le=14)
    seed: int = Field(default=0, ge=0)


@register("arrivals")
class ArrivalService(Service):
    """Counts submissions by slots of ten minutes. A forecast goes by slots that have ended alone."""

    Options = ArrivalOptions

    def __init__(self, options: ArrivalOptions | None = None) -> None:
        self.options = options or ArrivalOptions()
        self._slots: dict[int, tuple[float, float]] = {}  # slot -> jobs and GPUs
        self._model: ArrivalForecast | None = None
        self._next_fit_s, self._fitted_slot = -math.inf, 0
        self._told: tuple[int, Arrivals] | None = None  # the slot of the last forecast, and that forecast

    def observe(self, fact: Fact) -> None:
        """Count a job that was submitted."""
        if isinstance(fact, SubmittedJob):
            self._count(fact)

    def foretell(self, job: SubmittedJob) -> None:
        """Count a job, whose length this service does not foretell."""
        self._count(job)

    def _count(self, job: SubmittedJob) -> None:
        slot = math.floor(job.submitted_s / SLOT_S)
        jobs, gpus = self._slots.get(slot, (0.0, 0.0))
        self._slots[slot] = jobs + 1, gpus + job.gpus
        if len(self._slots) > 2 * self._most:
            self._slots = {at: of for at, of in self._slots.items() if at >= slot - self._most}

    @property
    def _most(self) -> int:
        return self.options.days * SLOTS_A_DAY

    def series(self, now: float) -> ArrivalSeries:
        """Return the counts of slots that have ended. The first one with a job may lack some, and is left out."""
        end = math.floor(now / SLOT_S)
        first = max(min(self._slots, default=end) + 1, end - self._most)
        counts = np.array([self._slots.get(at, (0.0, 0.0)) for at in range(first, end)], float).reshape(-1, 2)
        return ArrivalSeries(first * SLOT_S, counts[:, 0], counts[:, 1])

    def arriving(self, now: float) -> Arrivals | None:
        """Return the mean of the next `AHEAD` slots; None before a model is fitted."""
        if self._model is None:
            return None
        slot = math.floor(now / SLOT_S)
        if self._told is None or self._told[0] != slot:
            ahead = self._model.ahead(self.series(now))
            self._told = slot, Arrivals(float(ahead.jobs[:AHEAD].mean()), float(ahead.gpus[:AHEAD].mean()))
        return self._told[1]

    def fit_due(self, now: float) -> bool:
        """Return whether `refit_h` have passed, or there is no model and a further day is known."""
        return now >= self._next_fit_s

    def fitting(self, now: float) -> Callable[[], ArrivalForecast | None]:
        """Return a fit to the slots that have ended by now."""
        hours = self.options.refit_h if self._model is not None else min(self.options.refit_h, 24.0)
        self._next_fit_s = now + 3600.0 * hours
        slot = math.floor(now / SLOT_S)
        fresh, self._fitted_slot = slot - self._fitted_slot, slot
        how = replace(SETTINGS, trees=self.options.trees)
        calendar = Calendar(utc_offset_h=self.options.utc_offset_h)
        return partial(refit, self.series(now), self._model, fresh, calendar, how, seed=self.options.seed)

    def take(self, model: ArrivalForecast | None) -> None:
        """Use a model from now on; None: too little is known, or it is worse than the one in use."""
        if model is not None:
            self._model, self._told = model, None

    def document(self) -> Mapping[str, Any] | None:
        """Return the sums as plain JSON values."""
        return None if self._model is None else self._model.to_json()

    def read(self, document: Mapping[str, Any]) -> None:
        """Use the model that `document` returned. Raises ValueError, in one sentence, for any other document."""
        self._model, self._told = ArrivalForecast.read(document), None
