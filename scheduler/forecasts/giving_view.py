"""What would have to give for a deadline to hold, in sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...core.deadline_answer import DeadlineAnswer
from ...core.wording import span
from ...forecasts.answers import Gives

MOST_NAMED = 4


def sentences(
    gives: Gives, told: DeadlineAnswer, submitted_s: float, readable: Callable[[str], bool] = lambda job: True
) -> list[str]:
    """Return one or two sentences; none where the deadline holds, or nobody knows how long the job takes.

    Args:
        told: what the job is told.
        submitted_s: when it was submitted.
        readable: whether a job, by id, may be named.
    """
    if not told.answer.holds_not:
        return []
    ways = []
    if gives.without:
        ways.append(f"without {_named(gives.without, readable)}")
    if gives.nodes:
        gpu_type, _, each = gives.node.rpartition(":")
        ways.append(f"with {gives.nodes * int(each)} more {gpu_type} ({gives.nodes}x {gives.node})")
    found = []
    if ways:
        found.append(f"Its deadline would hold {' or '.join(ways)}.")
    elif not gives.alone:
        found.append("Its deadline would not hold even if no other job were there.")
    later_s = gives.later_s
    if later_s is None and told.end is not None:
        later_s = told.end.high_s
    if later_s is not None:
        within_s = _rounded(later_s - submitted_s)
        left_s = submitted_s + within_s - gives.made_s
        more = "" if abs(within_s - left_s) < 1 else f", {span(within_s)} after its submission"
        found.append(f"The earliest deadline that holds as things are is in {span(left_s)}{more}.")
    return found


def _rounded(seconds: float) -> float:
    """Return a span of time that is rounded up, so that it is shown as one that holds."""
    step_s = 1.0 if seconds < 120 else 60.0 if seconds < 7200 else 360.0
    return math.ceil(seconds / step_s - 1e-9) * step_s


def _named(jobs: Sequence[str], readable: Callable[[str], bool]) -> str:
    own = [job for job in jobs if readable(job)]
    hidden = len(jobs) - len(own)
    named = own[:MOST_NAMED]
    rest = len(own) - len(named)
    if rest:
        named.append(f"{rest} more")
    if hidden:
        named.append(f"{hidden} {'job' if hidden == 1 else 'jobs'} of others")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
