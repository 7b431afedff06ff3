"""What is known at a moment of how many nodes will have a job: calendar, lags, rolling statistics. Pure.

Every feature of a moment goes by that moment and what was before it. Counts are shares of all nodes, relative to
the newest count. So one model serves clusters and pools of different sizes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .node_series import SLOT_S, Floats, NodeSeries

# Slots: ten minutes to a week, and a day and a week before each horizon of `node_demand`.
_BEFORE = (30, 24, 18, 12, 6, 3, 1, 0)
LAGS = (
    1, 2, 3, 6, 12, 18, 36, 72, *(144 - ahead for ahead in _BEFORE), *(1008 - ahead for ahead in _BEFORE),
)  # fmt: skip
WINDOWS = (3, 6, 18, 36, 72, 144, 432)  # slots: half an hour to three days
RECENT = 3  # slots of which the most is what was needed lately: half an hour
MEMORY = 1 + max(LAGS)  # slots that the features of a moment read
NAMES = (
    *(f"lag_{lag}" for lag in LAGS),
    *(f"{name}_{window}" for window in WINDOWS for name in ("mean", "std", "max", "min")),
    "hour", "day_of_week", "holiday", "holiday_tomorrow", "level", "total",
)  # fmt: skip


@dataclass(frozen=True)
class Calendar:
    """Days that are unlike others, and how many hours local time is ahead of UTC."""

    holidays: frozenset[date] = frozenset()
    utc_offset_h: float = 0.0

    @classmethod
    def of(cls, holidays: Collection[date], utc_offset_h: float = 0.0) -> Calendar:
        return cls(frozenset(holidays), utc_offset_h)


def features(series: NodeSeries, calendar: Calendar, last: int | None = None) -> Floats:
    """Return (moments, features) at the ends of slots, in the order of `NAMES`; nan where nothing is known.

    Args:
        last: of so many of the newest slots; None: of all.
    """
    slots = len(series) if last is None else min(last, len(series))
    running, total = series.filled, np.maximum(series.filled_total, 1.0)
    now, scale = running[len(series) - slots :], total[len(series) - slots :]
    columns = [(_lagged(running, lag, slots) - now) / scale for lag in LAGS]
    for window in WINDOWS:
        seen = _windows(running, window, slots)
        mean, deviation = seen.mean(axis=1), seen.std(axis=1)
        columns += [(mean - now) / scale, deviation / scale]
        columns += [(seen.max(axis=1) - now) / scale, (seen.min(axis=1) - now) / scale]
    return np.column_stack([*columns, *_calendar(series, calendar, slots), now / scale, np.log2(scale)])


def recent_most(series: NodeSeries, last: int | None = None) -> Floats:
    """Return (moments,) the most nodes that ran in the last half hour, at the ends of slots."""
    slots = len(series) if last is None else min(last, len(series))
    running = series.filled
    return np.asarray(np.fmax.reduce([_lagged(running, lag, slots) for lag in range(RECENT)]))


def _lagged(values: Floats, lag: int, slots: int) -> Floats:
    """Return (slots,) the values `lag` slots before each of the newest slots."""
    padded = np.concatenate([np.full(lag, np.nan), values])
    return padded[len(values) - slots : len(values)]


def _windows(values: Floats, window: int, slots: int) -> Floats:
    """Return (slots, window) what was seen up to each of the newest slots."""
    tail = values[max(len(values) - slots - window + 1, 0) :]
    short = slots + window - 1 - len(tail)
    return sliding_window_view(np.concatenate([np.full(short, np.nan), tail]), window)


def _calendar(series: NodeSeries, calendar: Calendar, slots: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return (slots,) hour, day of week from Monday, and whether that day and the next are holidays."""
    ends = np.asarray(series.end_s - SLOT_S * np.arange(slots)[::-1] + 3600 * calendar.utc_offset_h, float)
    days = ends // 86_400
    flags = {day: _holidays(day, calendar) for day in np.unique(days)}
    holidays = np.array([flags[day] for day in days], float).reshape(slots, 2)
    return ends % 86_400 / 3600, (days + 3) % 7, holidays[:, 0], holidays[:, 1]


def _holidays(day: float, calendar: Calendar) -> tuple[bool, bool]:
    if not calendar.holidays:
        return False, False
    found = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=float(day))).date()
    return found in calendar.holidays, found + timedelta(days=1) in calendar.holidays
