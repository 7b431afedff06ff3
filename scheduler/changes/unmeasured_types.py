"""Decides on which GPU types an admitted job is still to be measured. Pure."""

from __future__ import annotations

from dataclasses import replace

from ...core.cluster import Cluster
from ...core.job import Phase
from ..jobs.fitting_types import allowed_types
from ..jobs.record import JobRecord, ProfileRun
from . import profile_reuse


def with_new_types(job: JobRecord, cluster: Cluster) -> JobRecord:
    """Return a queued or running job with a profile run for each GPU type that has joined the cluster.

    Runs on types that have gone are dropped. A type that was tried is not tried again, with whatever result. A
    running job that may not be preempted needs no other type.
    """
    if not job.spec.is_measured_first:
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
