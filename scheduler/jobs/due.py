"""By when a job is to end, as its user asked. Pure."""

from __future__ import annotations

from ...core.rewards import Rewards
from .record import JobRecord


def rewards_of(job: JobRecord, submitted_s: float) -> Rewards | None:
    """Return what ending by when is worth to a job that was submitted then; None: it has no deadline."""
    return None if job.spec.deadline is None else job.spec.deadline.rewards(submitted_s)


def is_in_rounds(job: JobRecord) -> bool:
    """Return whether a job with a deadline may run, so that it can be told whether that will hold."""
    held = job.paused or job.on_hold or job.cancelled_s is not None or bool(job.quarantine)
    return job.spec.deadline is not None and job.active and not held


def due_s(job: JobRecord) -> float | None:
    """Return the first deadline, seconds since 1970 by the clock of records; None: the job has none."""
    rewards = rewards_of(job, job.state.submitted_s)
    return None if rewards is None else job.state.submitted_s + rewards.by_s[0]
