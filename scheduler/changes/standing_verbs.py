"""What a user asks of how a job stands among others: priority, hold, release, bump, and more time. Pure.

Raises: JobStateError where a verb does not fit, with one sentence.
"""

from __future__ import annotations

from dataclasses import replace

from ...core.errors import JobStateError
from ...core.events import EventKind
from ...core.job import JobSpec
from ...core.spans import MOST_S
from ...core.teams import Priority
from ...core.wording import span
from ..jobs.record import JobRecord
from ..jobs.trained_time import check_limit
from ..store.events import Event
from .reactions import Reaction


def set_priority(job: JobRecord, now: float, priority: Priority) -> Reaction:
    """Let the progress of a job be worth more or less from the next round on."""
    _check_active(job, "priority")
    if (job.spec.priority or Priority.NORMAL) is priority:
        return Reaction(job)
    changed = _with(job, priority=priority)
    was = job.spec.priority or Priority.NORMAL
    return _told(changed, EventKind.PRIORITY, now, f"its priority is {priority}, and was {was}")


def set_weight(job: JobRecord, now: float, weight: float) -> Reaction:
    """Let the progress of a job be worth more or less beside others of its priority."""
    _check_active(job, "weight")
    if job.spec.weight == weight:
        return Reaction(job)
    changed, was = _with(job, weight=weight), job.spec.weight
    return _told(changed, EventKind.PRIORITY, now, f"its weight is {weight:g}, and was {was:g}")


def hold(job: JobRecord, now: float, operator: str = "") -> Reaction:
    """Let a job start on no GPUs until it is released; what it has it keeps.

    operator: who asks as one; "": its user does. An operator's hold takes the place of the user's, and stays.
    """
    _check_active(job, "hold")
    operator = "" if operator == job.owner else operator
    if job.on_hold and (job.held_by or not operator):
        return Reaction(job)
    keeps = ": it keeps its GPUs until it leaves them" if job.target else ""
    held = replace(job, on_hold=True, held_by=operator)
    return _told(held, EventKind.HOLD, now, f"{held.held_text}{keeps}")


def release(job: JobRecord, now: float, operator: str = "") -> Reaction:
    """Let a job that is on hold start again. What an operator holds only an operator releases.

    operator: who asks as one; "": its user does.
    """
    _check_active(job, "release")
    if not job.on_hold:
        return Reaction(job)
    if job.held_by and not operator:
        raise JobStateError(f"{job.id} is {job.held_text}, and only an operator releases it")
    whose = f"the operator {operator}" if operator and operator != job.owner else "the user"
    return _told(replace(job, on_hold=False, held_by=""), EventKind.HOLD, now, f"released by {whose}")


def bump(job: JobRecord, now: float) -> Reaction:
    """Let a job come first among those of its user that wait."""
    _check_active(job, "bump")
    return _told(
        replace(job, bumped=now), EventKind.BUMP, now, "to come first among the user's own jobs that wait"
    )


def extend(job: JobRecord, now: float, by_s: float) -> Reaction:
    """Move the time limit of a job. One that has reached it can be resumed after that."""
    limit = job.spec.time_limit
    if limit is None:
        raise JobStateError(f"{job.id} has no time limit, so there is nothing to extend")
    if job.cancelled_s is not None:
        raise JobStateError(f"{job.id} saves and ends already; extend it when it has ended, and resume it")
    wanted = limit + by_s
    if wanted > MOST_S:
        raise JobStateError(f"time_limit: {span(wanted)} is too long; at most {span(MOST_S)} are accepted")
    check_limit(job, wanted, now)
    text = f"its time limit is {span(wanted)}, and was {span(limit)}"
    return _told(_with(job, time_limit=wanted), EventKind.TIME_LIMIT, now, text)


def _with(job: JobRecord, **fields: object) -> JobRecord:
    """Return a job with other fields of its spec, also of the one that counts from its next life on."""

    def changed(spec: JobSpec) -> JobSpec:
        return spec.model_copy(update=fields)

    file = None if job.changed is None else replace(job.changed, spec=changed(job.changed.spec))
    return replace(job, spec=changed(job.spec), changed=file)


def _check_active(job: JobRecord, verb: str) -> None:
    if not job.active:
        raise JobStateError(f"{job.id} has ended ({job.phase}), so {verb} does not fit it")


def _told(job: JobRecord, kind: EventKind, now: float, text: str) -> Reaction:
    return Reaction(job, (Event(kind, now, job.id, {"text": text}),), round=True)
