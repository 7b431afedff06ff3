"""Who runs on GPUs that other teams leave idle: kept with each job, so that a restarted service knows. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...policies.contract.round import Plan
from ..jobs.record import JobRecord


def changed_by(plan: Plan, jobs: Iterable[JobRecord]) -> list[JobRecord]:
    """Return the jobs that begin to borrow by a plan, or no longer do."""
    return [replace(job, borrows=not job.borrows) for job in jobs if job.borrows is not (job.id in plan.borrowed)]
