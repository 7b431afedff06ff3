"""Which jobs have to end before another one starts. Pure."""

from __future__ import annotations

from collections.abc import Callable

from ...core.job import Phase
from .record import JobRecord

Find = Callable[[str], JobRecord | None]


def awaited(job: JobRecord, find: Find) -> list[str]:
    """Return the jobs that have to end before this one starts, and have not."""
    if job.spec.after is None or job.phase is not Phase.SUBMITTED:
        return []
    return [job_id for job_id in job.spec.after.all if (found := find(job_id)) is not None and found.active]
