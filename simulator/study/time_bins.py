"""Hours and months of a trace, by the clock of its cluster, and what falls into each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..results.metrics import Intervals
from ..traces.tables import DAY_S, Floats
from ..traces.workload import Ints
from .jobs import StudiedJobs

HOUR_S = 3600.0
MONTH_S = 30 * DAY_S  # of a trace without dates
MOST_S = 50 * 366 * DAY_S  # a longer trace is not cut into hours


@dataclass(frozen=True)
class Window:
    """The time for which use and submissions are counted, in seconds of the trace."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


def window_of(jobs: StudiedJobs) -> Window:
    """Return the time from the first to the last submission, after which a cluster only drains.

    If that is less than a day, the window ends with the last job.
    """
    first, last = float(jobs.submit_s[0]), float(jobs.submit_s[-1])
    if last - first < DAY_S:
        last = max(last, float(jobs.held.end_s.max(initial=last)), first + 1.0)
    return Window(first, last)


@dataclass(frozen=True, eq=False)
class Bins:
    """Parts of a window that follow each other; `edges_s` has one more than there are parts."""

    edges_s: Floats

    @property
    def width_s(self) -> Floats:
        return np.diff(self.edges_s)

    def count(self, times_s: Floats) -> Ints:
        """Return (bins,) how many of the times lie in each; the end of the window lies in the last."""
        return np.histogram(times_s, self.edges_s)[0]

    def gpu_s(self, held: Intervals) -> Floats:
        """Return (bins,) the GPU-seconds that were held in each, exactly."""
        held_s = _until(self.edges_s, held.start_s, held.gpus) - _until(self.edges_s, held.end_s, held.gpus)
        return np.maximum(np.diff(held_s), 0.0)  # a difference of equal times may round below 0


def hours(window: Window, began_s: float | None) -> Bins:
    """Return the hours of the clock in a window; the first and the last may be cut.

    Without dates hours count from second 0 of the trace. Raise ValueError for more than 50 years.
    """
    if window.length_s > MOST_S:
        raise ValueError("the trace spans more than 50 years")
    late = (began_s or 0.0) % HOUR_S
    first, last = (np.floor((t + late) / HOUR_S) for t in (window.start_s, window.end_s))
    return _within(window, np.arange(first, last + 1) * HOUR_S - late)


def hour_of_day(bins: Bins, began_s: float | None) -> Ints:
    """Return (bins,) the hour of the day, 0 to 23, in which each bin lies."""
    middle = (bins.edges_s[:-1] + bins.edges_s[1:]) / 2 + (began_s or 0.0)
    return (np.floor(middle / HOUR_S) % 24).astype(np.int64)


def months(window: Window, began_s: float | None) -> tuple[Bins, tuple[str, ...]]:
    """Return the months of the calendar in a window, and their names; without dates, parts of 30 days.

    Raise ValueError for more than 50 years.
    """
    if window.length_s > MOST_S:
        raise ValueError("the trace spans more than 50 years")
    if began_s is None:
        first, last = window.start_s // MONTH_S, window.end_s // MONTH_S
        bins = _within(window, np.arange(first, last + 1) * MONTH_S)
        starts = (bins.edges_s[:-1] / DAY_S).round(1)
        return bins, tuple(f"from day {start:g}" for start in starts)
    first_month, last_month = _moments(np.array([window.start_s, window.end_s]) + began_s).astype("datetime64[M]")
    edges = np.arange(first_month, last_month + 1).astype("datetime64[s]").astype(float) - began_s
    bins = _within(window, edges)
    return bins, tuple(str(month) for month in _moments(bins.edges_s[:-1] + began_s).astype("datetime64[M]"))


def day(time_s: float, began_s: float | None) -> str:
    """Return a moment of the trace as `2020-09-01 00:00`, or as its day where there are no dates."""
    if began_s is None:
        return f"day {time_s / DAY_S:.1f}"
    return str(_moments(np.array(began_s + time_s)).astype("datetime64[m]")).replace("T", " ")


def _moments(seconds: Floats) -> Any:
    """Return seconds since 1970 as moments; a thousandth of a second early counts as on time."""
    return np.floor(seconds + 1e-3).astype(np.int64).astype("datetime64[s]")


def _within(window: Window, edges_s: Floats) -> Bins:
    inside = edges_s[(edges_s > window.start_s) & (edges_s < window.end_s)]
    return Bins(np.concatenate([[window.start_s], inside, [window.end_s]]))


def _until(times_s: Floats, since_s: Floats, gpus: Ints) -> Floats:
    """Return, for each time, the GPU-seconds if the GPUs had been held for ever since `since_s`."""
    order = np.argsort(since_s, kind="stable")
    since_s, weight = since_s[order], gpus[order].astype(float)
    count = np.searchsorted(since_s, times_s, side="right")
    total = np.concatenate([[0.0], np.cumsum(weight)])[count]
    moment = np.concatenate([[0.0], np.cumsum(weight * since_s)])[count]
    return total * times_s - moment
