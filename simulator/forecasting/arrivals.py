"""Jobs that will be submitted: those of the last weeks come again, block by block, at the same time of day."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from ...core.expected import ExpectedSource
from ...forecasts.state import LiveJob, PastJob
from .truth import Truth

DAY_S = 86_400.0
BLOCK_S = 3600.0
MOST = 1500  # arrivals of one world
MEASURING_S = 60.0  # from submission until a job takes part, where nothing measured it before


def arrivals(past: Sequence[PastJob], now_s: float, until_s: float, world: int) -> list[tuple[LiveJob, Truth]]:
    """Return jobs that come until a time, in order, each with what is true of it.

    Blocks have fixed places on the clock. So what comes at a time does not change from forecast to forecast.

    Args:
        past: in order of submission.
    """
    if not past or until_s <= now_s:
        return []
    times = [one.submitted_s for one in past]
    span_s = now_s - times[0]
    block_s = BLOCK_S if span_s >= 4 * BLOCK_S else max(span_s / 4, 60.0)
    by_day = span_s >= 2 * DAY_S
    first, this = math.ceil(times[0] / block_s), math.floor(now_s / block_s)
    found: list[tuple[LiveJob, Truth]] = []
    for block in range(this, math.floor(until_s / block_s) + 1):
        random = np.random.default_rng([world, block])
        if by_day:
            days = max(int(span_s // DAY_S), 1)
            shift_s = DAY_S * (math.ceil((block * block_s + block_s - now_s) / DAY_S) + int(random.integers(days)))
            from_s = block * block_s - shift_s
        else:
            from_s = block_s * (min(first, this - 1) + int(random.random() * max(this - first, 1)))
            shift_s = block * block_s - from_s
        for at in range(bisect_left(times, from_s), bisect_left(times, from_s + block_s)):
            if now_s < (comes_s := times[at] + shift_s) <= until_s:
                found.append(_again(past[at], comes_s, f"{past[at].id}+{block}"))
                if len(found) >= MOST:
                    return found
    return found


def _again(one: PastJob, at_s: float, name: str) -> tuple[LiveJob, Truth]:
    """Return a job of the past as one that comes."""
    in_seconds = one.model is None or one.samples is None
    left = max(one.served_s, 1.0) if one.model is None or one.samples is None else max(one.samples, 1.0)
    job = LiveJob(
        id=f"~{name}",
        spec=one.spec,
        submitted_s=at_s,
        owner=one.owner,
        script_key=one.script_key,
        model=one.model,
        ready_s=at_s + (0.0 if one.model is None else MEASURING_S),
        start_s=one.start_s,
        move_s=one.move_s,
        mean_s=max(one.served_s, 1.0),
        low_s=max(one.served_s, 1.0),
        high_s=max(one.served_s, 1.0),
        source=ExpectedSource.MEASURED_SPEED,
        remaining=None if in_seconds else left,
        rewards=None if one.spec.deadline is None else one.spec.deadline.rewards(at_s),
    )
    return job, Truth(left, in_seconds=in_seconds)
