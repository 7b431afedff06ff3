"""The order among a user's own jobs that wait: one that was bumped comes first. Nobody else is delayed. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from .record import JobRecord


def in_own_order(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Return jobs where those that wait of one user have exchanged their times of submission.

    Policies go by these times. The newest bumped job has the earliest one of its user's in its pool, and so on.
    """
    if not any(job.bumped for job in jobs):
        return list(jobs)
    queues: dict[tuple[str, str], list[JobRecord]] = {}
    for job in jobs:
        if not job.target and not job.occupied:
            queues.setdefault((job.owner, job.spec.pool or ""), []).append(job)
    moved: dict[str, JobRecord] = {}
    for queue in queues.values():
        times = _apart(sorted(job.state.submitted_s for job in queue))
        order = sorted(queue, key=lambda job: (-job.bumped, job.state.submitted_s, job.number))
        for job, submitted_s in zip(order, times, strict=True):
            if job.state.submitted_s != submitted_s:
                moved[job.id] = replace(job, state=replace(job.state, submitted_s=submitted_s))
    return [moved.get(job.id, job) for job in jobs]


def _apart(times: list[float]) -> list[float]:
    """Return sorted times of which no two are equal: jobs that came at one moment have an order, too."""
    for at in range(len(times) - 2, -1, -1):
        times[at] = min(times[at], math.nextafter(times[at + 1], -math.inf))
    return times
