"""How many jobs, and GPUs with them, are submitted in the next hour: by ten minutes, from what came before. Pure.

Source: Lucid, ASPLOS'23, section on the throughput predict model: calendar, lags, and rolling statistics.
Of a slot of ten minutes counts alone are known, and only once it has ended. Errors are absolute ones, so that a
burst of hundreds does not bend the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.signal import lfilter

from . import absolute_fit
from .absolute_fit import AbsoluteSettings
from .interpretable.additive import AdditiveModel, Sum
from .interpretable.model_file import of_json, to_json
from .interpretable.table import Floats, Table, named
from .node_features import Calendar, calendar_columns
from .node_series import SLOT_S

Quantity = Literal["jobs", "gpus"]
QUANTITIES: tuple[Quantity, ...] = ("jobs", "gpus")
HORIZONS = (1, 3, 6)  # slots ahead that have a model; those between lie on the line
SLOTS = max(HORIZONS)
DAY, WEEK = 144, 1008  # slots
LAGS = (1, 2, 3, 4, 6, 9, 12, 18)
WINDOWS = (6, 18, 36, 72, DAY, WEEK)
HALF_LIVES = (1, 2, 4, 8, 24)  # slots: each weighs half as much as one that is so much newer
OTHERS = (1, 6, 36)  # windows of the other quantity
AROUND = 6  # slots before and after the same time of another day
NAMES = (
    *(f"lag_{lag}" for lag in LAGS), *(f"mean_{window}" for window in WINDOWS),
    *(f"fading_{half}" for half in HALF_LIVES), "median_6", "a_day_before", "a_week_before", "around_a_day_before",
    "around_a_week_before", *(f"other_mean_{window}" for window in OTHERS), "hour", "day_of_week",
)  # fmt: skip
_HOUR, _WEEKDAY = NAMES.index("hour"), NAMES.index("day_of_week")
# Each with the hour and the day: the same count goes on by night and passes by day. And what is usual at the time
# that is foretold, with what has come of late.
PAIRS = (
    *((of, when) for of in range(_HOUR) for when in (_HOUR, _WEEKDAY)), (_HOUR, _WEEKDAY),
    *(
        (NAMES.index(usual), NAMES.index(late))
        for usual in ("around_a_day_before", "around_a_week_before")
        for late in ("mean_6", "mean_18", "mean_36", "mean_72", "fading_4", "fading_8")
    ),
)  # fmt: skip
MEMORY = WEEK + AROUND + 1  # slots that a forecast reads
LEAST_SLOTS = 3 * DAY  # before a model is fitted
SETTINGS = AbsoluteSettings(trees=400, leaves=10, learning_rate=0.04)


@dataclass(frozen=True, eq=False)
class ArrivalSeries:
    """Jobs, and the GPUs that they ask for, submitted in slots of ten minutes that have ended; (slots,) each.

    start_s: seconds since 1970 at which the first slot begins, a multiple of 600.
    """

    start_s: float
    jobs: Floats
    gpus: Floats

    def __post_init__(self) -> None:
        if len(self.jobs) != len(self.gpus):
            raise ValueError("arrivals: jobs and gpus differ in length")
        if not math.isfinite(self.start_s) or self.start_s % SLOT_S:
            raise ValueError(f"arrivals: start_s: {self.start_s} is not accepted, must be a multiple of 600")
        for name in QUANTITIES:
            of = getattr(self, name)
            if not (np.isfinite(of) & (of >= 0)).all():
                raise ValueError(f"arrivals: {name}: a count is not accepted, must be finite and 0 or more")

    def __len__(self) -> int:
        return len(self.jobs)

    def of(self, first: int, end: int) -> ArrivalSeries:
        """Return the slots from `first` on and before `end`."""
        return ArrivalSeries(self.start_s + SLOT_S * first, self.jobs[first:end], self.gpus[first:end])


def series_of(
    submitted_s: Sequence[float] | Floats, gpus: Sequence[float] | Floats, since_s: float, now: float
) -> ArrivalSeries:
    """Return the slots that begin at `since_s` or later and have ended by `now`.

    Args:
        submitted_s, gpus: (jobs,) of all jobs that were submitted, in any order.

    Raises:
        ValueError: in one sentence, for a history that ends before it starts, and for one that knows the future.
    """
    at, asked = np.asarray(submitted_s, float), np.asarray(gpus, float)
    if not (math.isfinite(since_s) and math.isfinite(now)) or now < since_s:
        raise ValueError(f"arrivals: the history ends at {now:.0f} s, before it starts at {since_s:.0f} s")
    if len(at) and not at.max() <= now:
        raise ValueError(f"arrivals: a job was submitted at {at.max():.0f} s, and it is {now:.0f} s")
    first, end = math.ceil(since_s / SLOT_S), math.floor(now / SLOT_S)
    slots = np.floor(at / SLOT_S).astype(np.int64) - first
    known = (slots >= 0) & (slots < end - first)
    count = max(end - first, 0)
    jobs = np.bincount(slots[known], minlength=count).astype(float)
    return ArrivalSeries(
        first * SLOT_S, jobs, np.bincount(slots[known], asked[known], minlength=count).astype(float)
    )


def rows(series: ArrivalSeries, quantity: Quantity, ahead: int, calendar: Calendar) -> Floats:
    """Return (slots + 1, features of `NAMES`): what is known at the start of each slot, and at the end of all.

    nan where nothing is known. The row of slot i goes by the slots before i alone. It foretells slot
    i + ahead - 1, of which it knows the time of day and of the week.
    """
    of, other = (series.jobs, series.gpus) if quantity == "jobs" else (series.gpus, series.jobs)
    before, wanted = np.arange(len(series) + 1), np.arange(len(series) + 1) + ahead - 1
    recent = np.full((6, len(before)), np.nan)
    for lag in range(6):
        recent[lag] = _at(of, before - 1 - lag)
    columns = [_at(of, before - lag) for lag in LAGS]
    columns += [_mean(of, before - window, before) for window in WINDOWS]
    columns += [_fading(of, half) for half in HALF_LIVES]
    columns += [np.median(recent, axis=0), _at(of, wanted - DAY), _at(of, wanted - WEEK)]
    columns += [_mean(of, wanted - day - AROUND, wanted - day + AROUND + 1) for day in (DAY, WEEK)]
    columns += [_mean(other, before - window, before) for window in OTHERS]
    hour, weekday, _, _ = calendar_columns(series.start_s + SLOT_S * wanted.astype(float), calendar)
    return np.column_stack([*columns, hour, weekday])


def _at(of: Floats, slots: np.ndarray) -> Floats:
    """Return the counts of slots, of any shape; nan for those before the first."""
    return np.where(slots >= 0, of[np.clip(slots, 0, len(of) - 1)] if len(of) else np.nan, np.nan)


def _mean(of: Floats, first: np.ndarray, end: np.ndarray) -> Floats:
    """Return the mean counts of slots from `first` on and before `end`; nan where one is not known."""
    sums = np.concatenate([[0.0], np.cumsum(of)])
    known = (first >= 0) & (end <= len(of))
    found = sums[np.clip(end, 0, len(of))] - sums[np.clip(first, 0, len(of))]
    return np.where(known, found / (end - first), np.nan)


def _fading(of: Floats, half: int) -> Floats:
    """Return (slots + 1,) means in which the newest slots weigh most."""
    kept = 0.5 ** (1 / half)
    weighted = lfilter([1 - kept], [1, -kept], of) if len(of) else np.empty(0)
    weights = 1 - kept ** np.arange(1, len(of) + 1)
    return np.concatenate([[np.nan], weighted / weights])


@dataclass(frozen=True)
class Ahead:
    """What is foretold of the next `SLOTS` slots, the one that is under way first; (slots,) each."""

    jobs: Floats
    gpus: Floats


@dataclass(frozen=True)
class ArrivalForecast:
    """Fitted sums by quantity and horizon."""

    models: Mapping[tuple[Quantity, int], AdditiveModel]
    calendar: Calendar

    def ahead(self, series: ArrivalSeries) -> Ahead:
        """Return what is foretold at the end of a series, by that series alone."""
        newest = series.of(max(len(series) - MEMORY, 0), len(series))
        slots = np.arange(1, SLOTS + 1)
        said = {
            quantity: np.interp(slots, HORIZONS, [self._one(newest, quantity, ahead) for ahead in HORIZONS])
            for quantity in QUANTITIES
        }
        return Ahead(said["jobs"], said["gpus"])

    def _one(self, series: ArrivalSeries, quantity: Quantity, ahead: int) -> float:
        return float(self.said(quantity, ahead, rows(series, quantity, ahead, self.calendar)[-1:])[0])

    def said(self, quantity: Quantity, ahead: int, known: Floats) -> Floats:
        """Return (rows,) forecasts of `rows`, 0 or more."""
        return np.maximum(self.models[quantity, ahead].predict(known), 0.0)

    def explain(self, series: ArrivalSeries, quantity: Quantity, ahead: int) -> Sum:
        """Return one forecast at the end of a series as a sum; `ahead`: one of `HORIZONS`."""
        return self.models[quantity, ahead].explain(rows(series, quantity, ahead, self.calendar)[-1])

    def to_json(self) -> Mapping[str, Any]:
        """Return the models as plain JSON values. Holidays are no part of them."""
        models = [
            {"quantity": quantity, "ahead": ahead, "model": to_json(model)}
            for (quantity, ahead), model in self.models.items()
        ]
        return {"utc_offset_h": self.calendar.utc_offset_h, "models": models}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> ArrivalForecast:
        """Return what `to_json` wrote. Raises ValueError, in one sentence, for anything else."""
        try:
            found = {
                (str(one["quantity"]), int(one["ahead"])): of_json(one["model"]) for one in document["models"]
            }
            calendar = Calendar.of((), float(document["utc_offset_h"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"arrivals: is no such model: {type(error).__name__}: {error}") from None
        models = dict[tuple[Quantity, int], AdditiveModel]()
        for quantity in QUANTITIES:
            for ahead in HORIZONS:
                model = found.get((quantity, ahead))
                if not isinstance(model, AdditiveModel) or tuple(one.name for one in model.features) != NAMES:
                    which = f"{quantity} {ahead} ahead"
                    raise ValueError(f"arrivals: the model of {which} is missing or of other features")
                models[quantity, ahead] = model
        return cls(models, calendar)


def fit_one(
    series: ArrivalSeries,
    quantity: Quantity,
    ahead: int,
    calendar: Calendar | None = None,
    settings: AbsoluteSettings = SETTINGS,
    *,
    seed: int = 0,
) -> AdditiveModel:
    """Fit to the slots of a series what is known `ahead` slots before. Raises ValueError for constant counts."""
    table = table_of(series, quantity, ahead, calendar or Calendar())
    return absolute_fit.fit(table, PAIRS, settings, seed=seed)


def table_of(series: ArrivalSeries, quantity: Quantity, ahead: int, calendar: Calendar) -> Table:
    """Return the rows of the slots of a series, with their counts."""
    known = rows(series, quantity, ahead, calendar)[: len(series) - ahead + 1]
    of = series.jobs if quantity == "jobs" else series.gpus
    return Table(named(NAMES), known[1:], of[ahead:], quantity)


def fit(
    series: ArrivalSeries,
    calendar: Calendar | None = None,
    settings: AbsoluteSettings = SETTINGS,
    *,
    seed: int = 0,
) -> ArrivalForecast | None:
    """Fit to what was submitted. None: less than three days are known, or nothing changes in them."""
    if len(series) < LEAST_SLOTS or any(np.ptp(of[SLOTS + 1 :]) == 0 for of in (series.jobs, series.gpus)):
        return None
    by = calendar or Calendar()
    models = {
        (quantity, ahead): fit_one(series, quantity, ahead, by, settings, seed=seed)
        for quantity in QUANTITIES
        for ahead in HORIZONS
    }
    return ArrivalForecast(models, by)


def without_model(series: ArrivalSeries) -> Ahead:
    """Return means of the last hour, for as long as there is no model; 0 before anything is known."""
    jobs, gpus = (float(of[-6:].mean()) if len(of) else 0.0 for of in (series.jobs, series.gpus))
    return Ahead(np.full(SLOTS, jobs), np.full(SLOTS, gpus))


def refit(
    series: ArrivalSeries,
    in_use: ArrivalForecast | None,
    fresh: int,
    calendar: Calendar | None = None,
    settings: AbsoluteSettings = SETTINGS,
    *,
    seed: int = 0,
) -> ArrivalForecast | None:
    """Fit anew. Return None for too short a series, and for a model that is worse than the one in use.

    The newer half of the slots since the last fit is held back, and both models foretell it.

    Args:
        fresh: slots since the last fit.
    """
    held = min(fresh // 2, len(series))
    if in_use is not None and held:
        new = fit(series.of(0, len(series) - held), calendar, settings, seed=seed)
        if new is None or loss(new, series, held) > loss(in_use, series, held):
            return None
    return fit(series, calendar, settings, seed=seed)


def loss(model: ArrivalForecast, series: ArrivalSeries, newest: int) -> float:
    """Return the mean absolute error of the newest slots, each quantity over its mean, summed over horizons."""
    found = 0.0
    for quantity in QUANTITIES:
        of = series.jobs if quantity == "jobs" else series.gpus
        for ahead in HORIZONS:
            known = rows(series, quantity, ahead, model.calendar)[len(series) - newest - ahead + 1 :][:newest]
            errors = np.abs(model.said(quantity, ahead, known) - of[len(series) - newest :])
            found += float(errors.mean() / max(of.mean(), 1e-9))
    return found
