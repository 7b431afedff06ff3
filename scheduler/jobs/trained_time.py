"""For how long a job has trained, which its time limit bounds. Pure."""

from __future__ import annotations

from dataclasses import replace

from ...core.errors import JobStateError
from ...core.wording import span
from .record import JobRecord


def ran_s(job: JobRecord, now: float) -> float:
    """Return for how long a job has held GPUs on which it trained, over all its lives."""
    return job.ran_s + (0.0 if job.runs_since_s is None else max(now - job.runs_since_s, 0.0))


def with_ran(before: JobRecord, job: JobRecord, now: float) -> JobRecord:
    """Return a changed job with the time counted that it has trained."""
    if bool(before.group) == bool(job.group):
        return job
    if job.group:
        return replace(job, runs_since_s=now)
    return replace(job, ran_s=ran_s(before, now), runs_since_s=None)


def check_limit(job: JobRecord, limit: float | None, now: float) -> None:
    """Refuse a time limit that a job has reached already. Raises: JobStateError."""
    if limit is not None and limit <= ran_s(job, now):
        raise JobStateError(
            f"time_limit: {span(limit)} is in the past, as {job.id} has trained for {span(ran_s(job, now))}; "
            f"`coadapt extend {job.id} 2h` moves it"
        )
