"""Jobs that begin again by themselves after they have failed, and wait longer each time. Pure."""

from __future__ import annotations

from dataclasses import replace

from ...core.events import EventKind
from ...core.job import Phase
from ...core.wording import span
from ..jobs.record import JobRecord
from ..store.events import Event
from .forks import waits_for_copy
from .reactions import Reaction
from .verbs import begin_anew


def is_retried(before: JobRecord, job: JobRecord) -> bool:
    """Return whether a job that has just failed begins again by itself."""
    retry = job.spec.retry
    failed = before.active and job.phase is Phase.FAILED
    return failed and retry is not None and job.retries < retry.times and not waits_for_copy(before)


def without_end(reaction: Reaction) -> Reaction:
    """Return what failed a job without the event that tells of its end, which it is not."""
    events = tuple(event for event in reaction.events if event.kind is not EventKind.FINISH)
    return replace(reaction, events=events)


def retried(job: JobRecord, now: float) -> Reaction:
    """Return a failed job as one that begins again after its wait."""
    retry, why = job.spec.retry, job.state.reason
    assert retry is not None
    wait_s, number = retry.wait_s(job.retries), job.retries + 1
    text = f"failed: {why}; it is tried again in {span(wait_s)} ({number} of {retry.times})"
    again = begin_anew(job, now)
    reason = f"failed, and is tried again in {span(wait_s)} ({number} of {retry.times}): {why}"
    changed = replace(again, retries=number, not_before_s=now + wait_s, state=replace(again.state, reason=reason))
    return Reaction(changed, (Event(EventKind.RETRY, now, job.id, {"text": text}),), round=True)


def waits_to_retry(job: JobRecord, now: float) -> bool:
    """Return whether a job that failed still waits before it begins again."""
    return job.phase is Phase.SUBMITTED and job.not_before_s is not None and now < job.not_before_s
