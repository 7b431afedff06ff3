"""Admits submitted jobs: a job is measured on GPU types without measurements, or it queues. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...core.cluster import Cluster
from ...core.events import EventKind
from ...core.job import Phase
from ...core.sleeping import SleepingNode
from ..jobs.fitting_types import allowed_types, waiting_reason
from ..jobs.lifecycle import advance
from ..jobs.record import JobRecord, ProfileRun
from ..store.events import Event
from . import profile_reuse
from .reactions import Reaction


def admit(
    job: JobRecord,
    cluster: Cluster,
    with_known: Callable[[JobRecord], JobRecord],
    now: float,
    asleep: Sequence[SleepingNode] = (),
) -> Reaction:
    """Return the job in its next phase: to be measured, or queued.

    A job that no node can run stays as it is, with the reason why it waits.

    Args:
        with_known: adds what other jobs have measured.
        asleep: nodes that no job can be placed on now.
    """
    types = allowed_types(job.spec, cluster)
    if not types:
        return Reaction(replace(job, state=replace(job.state, reason=waiting_reason(job.spec, cluster, asleep))))
    job = with_known(job)
    known = profile_reuse.measured_types(job.measurements)
    unknown = [t for t in types if t not in known] if job.spec.is_measured_first else []
    phase, reason = (Phase.PROFILING, "being measured") if unknown else (Phase.QUEUED, "waiting for GPUs")
    admitted = replace(
        job,
        state=advance(job.state, phase, now, reason),
        profiles=tuple(ProfileRun(gpu_type) for gpu_type in unknown),
    )
    skipped = [t for t in types if t not in unknown]
    text = f"to be measured on {', '.join(unknown)}" if unknown else "queued"
    if skipped and job.spec.is_measured_first:
        text += f"; known from an earlier job: {', '.join(skipped)}"
    return Reaction(admitted, (Event(EventKind.ADMITTED, now, job.id, {"text": text}),), round=True)
