"""The time limit of a job: a word before its end, and the end. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from ...core.events import EventKind
from ...core.wording import span
from ..jobs.record import JobRecord
from ..jobs.trained_time import ran_s
from ..store.events import Event
from .reactions import Reaction
from .verbs import leave_and_end

TOLD_BEFORE = 0.1  # part of the limit before its end at which the job's log says so


def keep_time_limit(job: JobRecord, now: float) -> Reaction:
    """Have a job save and end that has reached its time limit, and say so a while before."""
    limit = job.spec.time_limit
    if limit is None or not job.active or job.cancelled_s is not None or job.runs_since_s is None:
        return Reaction(job)
    ran = ran_s(job, now)
    if ran >= limit:
        why = f"reached its time limit of {span(limit)}"
        return leave_and_end(replace(job, ending=why), EventKind.TIME_LIMIT, why, now)
    if ran >= (1 - TOLD_BEFORE) * limit and job.told_limit_s != limit:
        text = f"its time limit of {span(limit)} is in {span(limit - ran)}; `coadapt extend {job.id} 2h` moves it"
        told = Event(EventKind.TIME_LIMIT, now, job.id, {"text": text})
        return Reaction(replace(job, told_limit_s=limit), (told,))
    return Reaction(job)


def due_s(job: JobRecord) -> float:
    """Return when its time limit next changes a job; infinity if it never does."""
    limit = job.spec.time_limit
    if limit is None or not job.active or job.cancelled_s is not None or job.runs_since_s is None:
        return math.inf
    part = 1.0 if job.told_limit_s == limit else 1 - TOLD_BEFORE
    return job.runs_since_s + part * limit - job.ran_s
