"""What is true of a job in one world: what it still has to do, and how much faster it is than its model says.

What is known is drawn within its own error. Of a job of which nothing is known, a job of the last weeks tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...core.expected import Expected, ExpectedSource
from ...estimators.predictor import Z
from ...forecasts.state import LiveJob, Part, PastJob
from .draws import normal, uniform

ENDLESS = 1e15  # what a job has left that does not end by itself
PROFILE_S = 40.0  # what a profile run takes, with the start of its process
# Deviation of the log of a speed that was just seen, for the same GPUs and for others.
SEEN_ERROR = 0.05


@dataclass(frozen=True)
class Truth:
    """A job in one world.

    left: what it still has to do, in samples at its initial batch size, or in seconds.
    factor: how much faster it trains than its model says.
    in_seconds: whether `left` counts seconds, on whatever GPUs it gets.
    known: whether anybody could tell how long it takes.
    """

    left: float
    factor: float = 1.0
    in_seconds: bool = False
    known: bool = True


def truth_of(
    job: LiveJob, world: int, asked_per_s: float, slower: float, past: Sequence[PastJob], since_report: float = 0.0
) -> Truth:
    """Return what is true of a job in a world.

    Args:
        asked_per_s: by its model, samples/s on the GPUs it asks for; 0: it has no model.
        slower: how much faster it was just seen to train than its model says on the same GPUs; 1: not seen.
        past: whom it resembles, for one of which nothing is known.
        since_report: what it has done since its last report, in the unit of what is left.
    """
    found = _at_report(job, world, asked_per_s, slower, past)
    return replace(found, left=max(found.left - since_report, 1e-3)) if since_report > 0 else found


def _at_report(job: LiveJob, world: int, asked_per_s: float, slower: float, past: Sequence[PastJob]) -> Truth:
    if job.part is Part.PROFILE:
        return Truth(PROFILE_S * math.exp(0.3 * normal(job.id, world)), in_seconds=True)
    expected = job.expected
    if not expected.known:
        return _resembling(job, world, asked_per_s, slower, past)
    if asked_per_s <= 0:
        return Truth(expected.mean_s * stretched(expected, normal(job.id, world)), in_seconds=True)
    z, seen = normal(job.id, world), slower != 1.0
    if expected.source is ExpectedSource.MEASURED_SPEED:
        left = expected.mean_s * asked_per_s if job.remaining is None else job.remaining
        ends_sooner = expected.low_s == 0.0
        if ends_sooner:  # a metric may end it at any moment
            left *= uniform(f"{job.id} target", world)
        error = SEEN_ERROR if seen else math.log(max(expected.high_s / max(expected.mean_s, 1e-9), 1.0)) / Z
        return Truth(max(left, 1e-9), slower * math.exp(-z * error))
    left = expected.mean_s * asked_per_s * stretched(expected, z)
    return Truth(max(left, 1e-9), slower)


def stretched(expected: Expected, z: float) -> float:
    """Return by what a mean is multiplied at so many deviations; at `Z` of them lies an end of the band."""
    if expected.mean_s <= 0:
        return 1.0
    end_s = expected.high_s if z > 0 else max(expected.low_s, 0.02 * expected.mean_s)
    return math.exp(abs(z) / Z * math.log(max(end_s, 1e-9) / expected.mean_s))


def _resembling(job: LiveJob, world: int, asked_per_s: float, slower: float, past: Sequence[PastJob]) -> Truth:
    """Return the truth of a job of which nobody knows how long it takes."""
    like = [one for one in past if one.owner == job.owner] or list(past)
    if not like:
        return Truth(ENDLESS, slower, in_seconds=asked_per_s <= 0, known=False)
    one = like[min(int(uniform(f"{job.id} like", world) * len(like)), len(like) - 1)]
    if asked_per_s <= 0:
        return Truth(max(one.served_s, 1.0), in_seconds=True, known=False)
    return Truth(max(one.served_s, 1.0) * asked_per_s, slower, known=False)
