"""On which GPU types a job that was admitted is still to be measured. Pure."""

from __future__ import annotations

from dataclasses import replace

from ..core.cluster import Cluster
from ..core.job import Phase
from . import profile_reuse
from .record import JobRecord, ProfileRun
from .snapshot import allowed_types


def with_new_types(job: JobRecord, cluster: Cluster) -> JobRecord:
    """A queued or running job with a profile run for each GPU type that has joined the cluster since.

    A type that has gone is not waited for. One that was tried, with whatever result, is not tried again, and a job
    that keeps its GPUs until it ends needs no other.
    """
    if not job.spec.profile:
        return job
    present = allowed_types(job.spec, cluster)
    runs = tuple(run for run in job.profiles if not run.startable or run.gpu_type in present)
    new = [t for t in present if t not in {run.gpu_type for run in runs}]
    if job.phase is Phase.RUNNING and not job.spec.preemptible:
        new = []
    if not new and len(runs) == len(job.profiles):
        return job
    known = profile_reuse.measured_types(job.measurements)
    measured = tuple(ProfileRun(t, ok=True if t in known else None) for t in new)
    return replace(job, profiles=(*runs, *measured))
