"""What is known at a moment of how many nodes will have a job: calendar, lags, rolling statistics. Pure.

Every feature of a moment goes by that moment and what was before it. Counts are shares of all nodes, relative to
the newest count. So one model serves clusters and pools of different sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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


def features(series: NodeSeries, calendar: Calendar) -> Floats:
    """Return (slots, features) at the ends of slots, in the order of `NAMES`; nan where nothing is known."""
    running, scale = series.filled, np.maximum(series.filled_total, 1.0)
    lagged = [_lagged(running, lag) for lag in LAGS]
    windows = (sliding_window_view(_padded(running, window - 1), window) for window in WINDOWS)
    ends: Floats = np.asarray(series.start_s + SLOT_S * np.arange(1, len(series) + 1), float)
    return _columns(running, scale, lagged, windows, calendar_columns(ends, calendar))


def features_now(seen: Sequence[NodeSeries], calendar: Calendar) -> Floats:
    """Return (series, features) at the end of each series: the same as the last row of `features`, but at once."""
    tails = np.array([_padded(one.filled, MEMORY - len(one))[-MEMORY:] for one in seen])
    scale = np.maximum([one.filled_total[-1] for one in seen], 1.0)
    lagged = [tails[:, -1 - lag] for lag in LAGS]
    windows = (tails[:, -window:] for window in WINDOWS)
    ends = np.array([one.end_s for one in seen])
    return _columns(tails[:, -1], scale, lagged, windows, calendar_columns(ends, calendar))


def _columns(
    now: Floats, scale: Floats, lagged: Iterable[Floats], windows: Iterable[Floats], calendar: Sequence[Floats]
) -> Floats:
    """Return (moments, features) of what ran at moments, some slots before, and in (moments, slots) windows."""
    columns = [(one - now) / scale for one in lagged]
    for seen in windows:
        columns += [(seen.mean(axis=1) - now) / scale, seen.std(axis=1) / scale]
        columns += [(seen.max(axis=1) - now) / scale, (seen.min(axis=1) - now) / scale]
    return np.column_stack([*columns, *calendar, now / scale, np.log2(scale)])


def recent_most(series: NodeSeries) -> Floats:
    """Return (slots,) the most nodes that ran in the last half hour, at the ends of slots."""
    return np.asarray(np.fmax.reduce([_lagged(series.filled, lag) for lag in range(RECENT)]))


def _padded(values: Floats, before: int) -> Floats:
    return np.concatenate([np.full(max(before, 0), np.nan), values])


def _lagged(values: Floats, lag: int) -> Floats:
    """Return (slots,) the values so many slots before."""
    return _padded(values, lag)[: len(values)]


def calendar_columns(ends: Floats, calendar: Calendar) -> tuple[Floats, ...]:
    """Return (moments,) hour, day of week from Monday, and whether that day and the next are holidays."""
    local = ends + 3600 * calendar.utc_offset_h
    days = local // 86_400
    flags = {day: _holidays(day, calendar) for day in np.unique(days)}
    holidays = np.array([flags[day] for day in days], float).reshape(len(ends), 2)
    return local % 86_400 / 3600, (days + 3) % 7, holidays[:, 0], holidays[:, 1]


def _holidays(day: float, calendar: Calendar) -> tuple[bool, bool]:
    if not calendar.holidays:
        return False, False
    found = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=float(day))).date()
    return found in calendar.holidays, found + timedelta(days=1) in calendar.holidays
