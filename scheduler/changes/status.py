"""Tells what a job is doing and when it may end, from its record. Pure."""

from __future__ import annotations

from enum import StrEnum

from ...core.job import Phase
from ..jobs.record import JobRecord, Stopped

POINTS = 30  # points of a job's progress that are remembered
SPACING_S = 10.0  # least time between two of them


class Status(StrEnum):
    """What a job is doing. (`Phase` says what the scheduler may do with it.)"""

    WAITING = "waiting"  # for GPUs, to be measured or to train
    MEASURING = "measuring"
    STARTING = "starting"  # it has GPUs, and its processes start
    RUNNING = "running"
    RESTARTING = "restarting"  # after an error of its script, or on GPUs whose workers were lost
    LEAVING = "leaving"  # it saves and gives up its GPUs
    EVICTED = "evicted"  # it has trained, and other jobs have its GPUs
    PAUSED = "paused"  # its user holds it
    QUARANTINED = "quarantined"  # something is wrong with it; it keeps what it has
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


def status_of(job: JobRecord) -> Status:
    if not job.active:
        return Status(job.phase.value)
    if job.quarantine:
        return Status.QUARANTINED
    if job.cancelled_s is not None:
        return Status.LEAVING
    if job.paused:
        return Status.LEAVING if job.occupied else Status.PAUSED
    if job.phase is Phase.PROFILING:
        return Status.MEASURING if any(run.active for run in job.profiles) else Status.WAITING
    if job.target and job.retrying:
        return Status.RESTARTING
    if job.phase is Phase.RUNNING:
        if not job.target:
            return Status.LEAVING
        return Status.RUNNING if job.group else Status.RESTARTING
    if job.target:
        return Status.STARTING
    return Status.EVICTED if job.stopped is Stopped.EVICTED else Status.WAITING


def with_point(
    points: tuple[tuple[float, float], ...], now: float, fraction: float
) -> tuple[tuple[float, float], ...]:
    """Return the points (moment, fraction done) of the last minutes, with a new one."""
    if len(points) > 1 and now - points[-2][0] < SPACING_S:
        points = points[:-1]
    return (*points, (now, fraction))[-POINTS:]


def ends_s(job: JobRecord) -> float | None:
    """Return when a job will be done at the rate of its last reports; None if these do not tell."""
    if status_of(job) is not Status.RUNNING or len(job.reached) < 2:
        return None
    (first_s, before), (last_s, fraction) = job.reached[0], job.reached[-1]
    if fraction <= before or last_s <= first_s:
        return None
    return last_s + (1.0 - fraction) * (last_s - first_s) / (fraction - before)
