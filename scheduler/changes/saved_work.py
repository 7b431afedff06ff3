"""What is told of a job's checkpoints when a node of it goes away. Pure."""

from __future__ import annotations

from ...core.events import EventKind
from ...core.wording import span
from ..jobs.record import JobRecord
from ..store.events import Event


def saved(job: JobRecord) -> str:
    """Return a clause on what a job has saved."""
    if job.saved_steps is None:
        return "of its checkpoints nothing is known"
    return f"its newest checkpoint is of step {job.saved_steps}"


def saved_for_notice(job: JobRecord, steps: int, took_s: float, now: float) -> tuple[Event, ...]:
    """Return what is told of a checkpoint that a job has just written, if a node of it is about to go away."""
    if (notice := job.notice) is None:
        return ()
    left_s = notice.deadline_s - now
    when = f"{span(left_s)} before {notice.machine} goes away" if left_s >= 0 else "after its deadline"
    text = f"saved at step {steps} in {span(took_s)}, {when}"
    return (Event(EventKind.NOTICE, now, job.id, {"text": text, "steps": steps}),)
