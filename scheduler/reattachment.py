"""Brings records and executors together again after a restart of the service."""

from __future__ import annotations

from collections.abc import Mapping

from ..executor.executor_job import ExecutorStatus
from .changes.reactions import lose_everything, restart_unnamed
from .executors.executor_backend import ExecutorBackend
from .jobs.record import JobRecord
from .records import Records


def reattach(
    job: JobRecord,
    statuses: Mapping[str, ExecutorStatus | None],
    records: Records,
    executors: ExecutorBackend,
    now: float,
    unnamed: bool = False,
) -> None:
    """Bring the record of one job and its executor together again.

    Args:
        statuses: the status of every executor that exists. It is None for one that did not answer, which may have
            missed the last command.
        unnamed: whether the job's stored slots did not name their GPUs.
    """
    if job.id not in statuses:
        if job.occupied:
            records.apply(lose_everything(job, "its executor is gone", now), now)
    elif not job.active or (job.renews and job.stopped is None):
        executors.cancel(job)
    elif unnamed:
        records.apply(restart_unnamed(job, now), now)
    else:
        status = statuses[job.id]
        _repeat(job, -1 if status is None else status.sequence, executors)


def _repeat(job: JobRecord, seen: int, executors: ExecutorBackend) -> None:
    """Send the last commands again. An executor ignores what it has seen."""
    if (job.target or job.held) and job.sequence > seen:
        executors.assign(job, job.target, job.sequence)
        if left := [slot for slot in job.held if slot not in job.target]:
            # It may never have been told of these. By a number that it has seen it starts nothing, and releases
            # those that nothing is in.
            executors.assign(job, left, seen)
    for run in job.profiles:
        if run.slot is None:
            continue
        if run.active:
            executors.profile(job, run.slot, run.sequence)
        else:
            executors.end_profile(job, run.slot, run.sequence)
