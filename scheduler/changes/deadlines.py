"""The deadline of a job: what follows once it has passed, and a word where it counts for nothing. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from ...core.events import EventKind
from ...core.rewards import OnMissed
from ...core.wording import span
from ..jobs.due import rewards_of
from ..jobs.record import DeadlineNews, JobRecord
from ..store.events import Event
from .reactions import Reaction
from .verbs import leave_and_end

NOT_SERVED = "its deadline counts for nothing, as the policy of this cluster looks at none"


def keep_deadline(job: JobRecord, now: float, served: bool) -> Reaction:
    """Say that a deadline is missed, and have the job save and end if it asked for that.

    Args:
        served: whether the policy looks at deadlines.
    """
    if not _counts(job):
        return Reaction(job)
    rewards = rewards_of(job, job.state.submitted_s)
    missed = rewards is None or now > job.state.submitted_s + rewards.last_s
    if not missed:
        if served or job.told_deadline is not DeadlineNews.NOTHING:
            return Reaction(job)
        told = replace(job, told_deadline=DeadlineNews.NOT_SERVED)
        return Reaction(told, (Event(EventKind.DEADLINE, now, job.id, {"text": NOT_SERVED}),))
    told = replace(job, told_deadline=DeadlineNews.MISSED)
    last = "its deadline" if rewards is None else f"its last deadline, {span(rewards.last_s)} after submission,"
    why = f"{last} has passed"
    if job.spec.on_missed is OnMissed.CANCEL:
        return leave_and_end(replace(told, ending=why), EventKind.DEADLINE, why, now)
    return Reaction(told, (Event(EventKind.DEADLINE, now, job.id, {"text": f"{why}: it goes on as best effort"}),))


def due_s(job: JobRecord) -> float:
    """Return when its last deadline passes; infinity if that changes nothing of the job."""
    if not _counts(job) or (rewards := rewards_of(job, job.state.submitted_s)) is None:
        return math.inf
    return math.nextafter(job.state.submitted_s + rewards.last_s, math.inf)


def _counts(job: JobRecord) -> bool:
    """Return whether a job has a deadline yet."""
    over = job.cancelled_s is not None or job.told_deadline is DeadlineNews.MISSED
    return job.spec.deadline is not None and job.active and not over
