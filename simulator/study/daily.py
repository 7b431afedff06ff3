"""The day of a cluster: use and submissions by the hour, and whether the hour tells more than chance would."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..traces.tables import Floats
from .jobs import StudiedJobs
from .time_bins import HOUR_S, Bins, hour_of_day

HOURS = 24
LEAST_DAYS = 8  # whole days; one is lost to the moving mean
DRAWS = 999
MOST_P, LEAST_EXPLAINED = 0.01, 0.1  # of a clear pattern


@dataclass(frozen=True, eq=False)
class DailyPattern:
    """A series by hours of the day.

    `mean`, `deviation`: (24,) mean per hour, and standard deviation over days; nan: no such hour.
    `p`: how often days that are turned by chance have as much of a pattern; nan: fewer than `LEAST_DAYS` days.
    `explained`: share of the variance within days that the hour of the day explains; nan likewise.
    """

    mean: Floats
    deviation: Floats
    days: int
    p: float
    explained: float

    @property
    def clear(self) -> bool:
        """Whether the hour explains enough of what differs within days, and chance would not."""
        return self.p <= MOST_P and self.explained >= LEAST_EXPLAINED

    @property
    def busiest(self) -> int:
        return int(np.nanargmax(self.mean))

    @property
    def quietest(self) -> int:
        return int(np.nanargmin(self.mean))

    @property
    def swing(self) -> float:
        """The mean of the busiest hour over that of the quietest; nan: an hour is missing."""
        low, high = float(self.mean.min()), float(self.mean.max())
        return high / low if low > 0 else float("inf") if high > 0 else float("nan")


@dataclass(frozen=True, eq=False)
class Daily:
    """Jobs per hour, of one GPU and of several, and GPUs in use; None: use is not known."""

    submissions: DailyPattern
    single: Floats  # (24,) jobs per hour
    multi: Floats
    use: DailyPattern | None
    dated: bool  # hours are those of a clock; otherwise they count from the start of the trace


def daily(jobs: StudiedJobs, bins: Bins) -> Daily:
    """Return the mean day over hours of the clock."""
    hour, width_h = hour_of_day(bins, jobs.began_s), bins.width_s / HOUR_S
    count = bins.count(jobs.submit_s).astype(float)
    single = bins.count(jobs.submit_s[jobs.gpus == 1]).astype(float)
    return Daily(
        submissions=pattern(count, width_h, hour, root=True),
        single=_means(single, width_h, hour),
        multi=_means(count - single, width_h, hour),
        use=pattern(bins.gpu_s(jobs.held) / HOUR_S, width_h, hour) if jobs.lengths_known else None,
        dated=jobs.began_s is not None,
    )


def pattern(amounts: Floats, width_h: Floats, hour: NDArray[np.int64], root: bool = False) -> DailyPattern:
    """Return the daily pattern of a series of amounts per bin.

    A moving mean of 24 hours is taken away first, so that weeks and trends are no pattern. Each day is then
    turned by a random number of hours, which keeps what neighbouring hours share.
    `root`: the test is of square roots, so that single bursts of submissions do not outweigh all days.
    """
    rates = amounts / width_h
    whole = rates[np.isclose(width_h, 1.0)]  # cut hours are at the ends only
    days = len(whole) // HOURS
    deviation = np.full(HOURS, np.nan)
    p = explained = float("nan")
    if days:
        by_day = whole[: days * HOURS].reshape(days, HOURS)
        first = int(hour[int(np.argmax(np.isclose(width_h, 1.0)))])
        deviation = np.roll(by_day.std(axis=0), first)
    if days >= LEAST_DAYS:
        kernel = np.concatenate([[0.5], np.ones(HOURS - 1), [0.5]]) / HOURS
        series = np.sqrt(whole) if root else whole
        series = series[: days * HOURS]
        apart = series[HOURS // 2 : -HOURS // 2] - np.convolve(series, kernel, mode="valid")
        p, explained = _test(apart.reshape(-1, HOURS))
    return DailyPattern(_means(amounts, width_h, hour), deviation, days, p, explained)


def _means(amounts: Floats, width_h: Floats, hour: NDArray[np.int64]) -> Floats:
    covered = np.bincount(hour, weights=width_h, minlength=HOURS)
    total = np.bincount(hour, weights=amounts, minlength=HOURS)
    return np.where(covered > 0, total / np.where(covered > 0, covered, 1.0), np.nan)


def _test(by_day: Floats) -> tuple[float, float]:
    """Return p and the explained share of the variance of (days, 24) deviations."""
    total = float(by_day.var())
    # Differences of a steady series are rounding, which shows no pattern.
    if total <= 1e-18 * max(float(np.abs(by_day).max()), 1.0):
        return 1.0, 0.0
    found = float(by_day.mean(axis=0).var())
    rng = np.random.default_rng(0)
    place = np.arange(HOURS)
    as_large = 0
    for _ in range(DRAWS):
        turned = (place + rng.integers(0, HOURS, (len(by_day), 1))) % HOURS
        as_large += float(np.take_along_axis(by_day, turned, axis=1).mean(axis=0).var()) >= found * (1 - 1e-12)
    return (1 + as_large) / (1 + DRAWS), found / total
