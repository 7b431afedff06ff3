"""The deadline of a job: whether it holds, what follows once it has passed, and where it does not count. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from ...core.deadline_answer import Answer, DeadlineAnswer
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
    if not counts(job):
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
    if not counts(job) or (rewards := rewards_of(job, job.state.submitted_s)) is None:
        return math.inf
    return math.nextafter(job.state.submitted_s + rewards.last_s, math.inf)


def with_answer(job: JobRecord, told: DeadlineAnswer, now: float) -> Reaction:
    """Tell in the log that the answer on a job's deadline is another one; the same one is told once."""
    if not counts(job) or told.answer in (job.answer, Answer.MISSED):  # a missed one is told as it passes
        return Reaction(job)
    data = {"text": f"its deadline: {told.text(now)}", "answer": told.answer.value}
    return Reaction(replace(job, answer=told.answer), (Event(EventKind.DEADLINE, now, job.id, data),))


def counts(job: JobRecord) -> bool:
    """Return whether a job has a deadline yet."""
    over = job.cancelled_s is not None or job.told_deadline is DeadlineNews.MISSED
    return job.spec.deadline is not None and job.active and not over
