"""When jobs start and end: worlds from the live state on, under the very same policy. Pure but for its CPU clock.

Each world draws what is not known: jobs that will come, from those of the last weeks, and each job's own error.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from ..core.expected import BAND
from ..forecasts.answers import Forecast, JobForecast, Span
from ..forecasts.state import LiveState, Part, PastJob
from .forecasting.worlds import Ahead, WorldEnd

MOST_WORLDS = 25  # the middle one, and three times as many as cover all that is drawn evenly
NOBODY_KNOWS = "nothing is known of how long it takes"
NOT_IN_SIGHT = "it does not end within the time looked ahead"
NEVER_STARTS = "it gets no GPUs within the time looked ahead"


def forecast(
    state: LiveState,
    past: Sequence[PastJob] = (),
    *,
    cpu_s: float = 15.0,
    near: int = 20,
    most_worlds: int = MOST_WORLDS,
) -> Forecast:
    """Return when every job starts and ends, each with a band of 80 %.

    Worlds are simulated until the time is used up. The first is simulated in any case, but for at most twice
    that time.

    Args:
        past: jobs of the last weeks, in order of submission.
        cpu_s: seconds of one core.
        near: how many rounds are as live before they lie further apart.

    Raises:
        TooLong: one world takes too long.
        RunFailed: the policy fails.
        ValueError: for a policy that is none.
    """
    from_s = time.process_time()
    ahead = Ahead(state, past, near)
    ends = worlds(ahead, cpu_s, most_worlds)
    return forecast_of(ahead, ends, time.process_time() - from_s)


def worlds(ahead: Ahead, cpu_s: float, most: int) -> list[WorldEnd]:
    """Return as many worlds as can be simulated in so many seconds of one core; at least the first."""
    until_s = time.process_time() + cpu_s
    first = ahead.world(0, 2 * cpu_s)
    if first is None:
        raise TooLong(f"one look ahead takes more than {2 * cpu_s:.0f} s of a core")
    found = [first]
    took_s = cpu_s - (until_s - time.process_time())
    while len(found) < most and (left_s := until_s - time.process_time()) > took_s * 0.8:
        world = ahead.world(len(found), left_s)
        if world is None:
            break
        found.append(world)
    return found


class TooLong(RuntimeError):
    """A forecast would take more than its time; one sentence."""


def forecast_of(ahead: Ahead, ends: Sequence[WorldEnd], cpu_s: float) -> Forecast:
    """Return what worlds say of all live jobs together."""
    state = ahead.state
    jobs: dict[str, JobForecast] = {}
    for job in state.jobs:
        if job.part is Part.PROFILE:
            continue
        known = ahead.known(job)
        end = span([one.ended_s.get(job.id, np.inf) for one in ends]) if known else None
        start = None
        if waits := job.placement is None:
            start = span([one.started_s.get(job.id, np.inf) for one in ends])
        jobs[job.id] = JobForecast(
            start,
            end,
            why_no_start=NEVER_STARTS if waits and start is None else "",
            why_no_end="" if end is not None else NOT_IN_SIGHT if known else NOBODY_KNOWS,
            gpu_hours=_mean_hours([one.gpu_hours.get(job.id, {}) for one in ends]),
            holds=ends[0].holds.get(job.id, ()),
        )
    return Forecast(state.now_s, state.round, len(ends), cpu_s, jobs)


def span(moments: Sequence[float]) -> Span | None:
    """Return the median of moments, and the band that holds 80 % of them; None: most of them are infinite."""
    finite = np.sort(np.array([one for one in moments if np.isfinite(one)], float))
    if 2 * len(finite) <= len(moments):
        return None
    # Each moment stands for the middle of its part, so that few worlds do not make too narrow a band.
    low_s, at_s, high_s = np.quantile(finite, [(1 - BAND) / 2, 0.5, (1 + BAND) / 2], method="weibull").tolist()
    return Span(at_s, low_s, high_s)


def _mean_hours(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    types = sorted({gpu_type for part in parts for gpu_type in part})
    return {gpu_type: fmean(part.get(gpu_type, 0.0) for part in parts) for gpu_type in types}
