"""Why a job has no GPUs to train on, as a code and in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.cluster import Cluster
from ...core.decisions import WaitReason
from ...core.job import Phase
from ...core.sleeping import SleepingNode
from ...core.wording import amount
from ..changes.awaited import WAITS
from ..changes.forks import waits_for_copy
from ..jobs.fitting_types import runs_somewhere, waiting_reason
from ..jobs.record import JobRecord
from ..jobs.sleeping_nodes import waited_for, why_it_waits
from ..observers.hooks import RoundDone


def wait_reason(
    job: JobRecord,
    last: RoundDone | None,
    cluster: Cluster | None,
    *,
    compiling: bool = False,
    asleep: Sequence[SleepingNode] = (),
) -> WaitReason | None:
    """Return why a job has no GPUs to train on: by the last round, or by where it is if that gave it none.

    None: it has some, or it has ended. `compiling`: whether the first round waits for its kernels.
    `asleep`: nodes that are powered off, of which policies know nothing.
    """
    if not job.active or job.target:
        return None
    held_back = job.paused or job.on_hold or bool(job.quarantine)
    if not held_back and cluster is not None and sleepers_waited_for(job, cluster, asleep):
        return WaitReason.NODE_ASLEEP
    told = last is not None and not held_back and not slept_then(job, last)
    said = last.wait_reason(job.id) if last is not None and told else None
    return said or why_outside(job, cluster, compiling, asleep)


def reason_shown(job: JobRecord, cluster: Cluster | None = None, asleep: Sequence[SleepingNode] = ()) -> str:
    if job.quarantine and job.active:
        kept = ", it keeps its GPUs" if job.target else ""
        return f"quarantined{kept}, and `coadapt requeue {job.id}` lets it take part again: {job.quarantine}"
    if job.paused:
        return "paused by the user"
    if job.on_hold and job.active and not job.occupied:
        return job.held_text
    if job.origin is not None and not job.origin.copied and job.active:
        return f"waiting for the checkpoint of step {job.origin.steps} of {job.origin.job_id}"
    if job.active and (awaited := [one.job_id for one in job.trial_sources if one.copied is False]):
        return f"waiting for the states of trials of {' and '.join(awaited)}"
    if cluster is not None and (found := sleepers_waited_for(job, cluster, asleep)):
        return why_it_waits(found)
    if cluster is not None and _runs_nowhere(job, cluster):
        return waiting_reason(job.spec, cluster)
    if job.phase is Phase.PROFILING:
        active = [run.gpu_type for run in job.profiles if run.active]
        left = [run.gpu_type for run in job.profiles if run.ok is None and not run.active]
        parts = [f"being measured on {', '.join(active)}"] if active else []
        parts += [f"to be measured on {', '.join(left)}"] if left else []
        return "; ".join(parts)
    if job.phase is Phase.QUEUED and job.target and not job.retrying:
        first = job.target[0]
        return f"starts on {amount(sum(slot.gpus for slot in job.target), first.gpu_type, first.share)}"
    return job.state.reason


def why_outside(
    job: JobRecord, cluster: Cluster | None, compiling: bool, asleep: Sequence[SleepingNode] = ()
) -> WaitReason:
    if job.quarantine:
        return WaitReason.QUARANTINED
    if job.paused:
        return WaitReason.PAUSED
    if job.on_hold:
        return WaitReason.HELD
    if job.phase is Phase.SUBMITTED and job.spec.after is not None and job.state.reason.startswith(WAITS):
        return WaitReason.AFTER_OTHERS
    if job.phase is Phase.SUBMITTED and job.retries and job.not_before_s is not None:
        return WaitReason.TRIED_LATER
    if cluster is not None and sleepers_waited_for(job, cluster, asleep):
        return WaitReason.NODE_ASLEEP
    if cluster is not None and _runs_nowhere(job, cluster):
        # A cluster without nodes has no pools either: what belongs to no pool waits for its types then.
        gone = (job.spec.pool or "") not in cluster.pools and bool(job.spec.pool or cluster.nodes)
        return WaitReason.POOL_EMPTY if gone else WaitReason.NO_GPU_TYPE
    if job.phase is Phase.PROFILING:
        return WaitReason.MEASURING
    return WaitReason.COMPILING if compiling else WaitReason.NEXT_ROUND


def _runs_nowhere(job: JobRecord, cluster: Cluster) -> bool:
    """Return whether an active job occupies nothing and no node of its pool could run it."""
    return job.active and not job.occupied and not runs_somewhere(job.spec, cluster)


def sleepers_waited_for(
    job: JobRecord, cluster: Cluster, asleep: Sequence[SleepingNode]
) -> tuple[SleepingNode, ...]:
    """Return the sleeping nodes that an active job waits for, which occupies nothing and is not being measured."""
    if not asleep or not job.active or job.occupied or waits_for_copy(job):
        return ()
    if job.phase is Phase.PROFILING and runs_somewhere(job.spec, cluster):
        return ()
    return waited_for(job.spec, cluster, asleep)


def slept_then(job: JobRecord, last: RoundDone) -> bool:
    """Return whether a job waited for sleeping nodes in the last round, of which its policy knew nothing."""
    asleep = [SleepingNode(node) for node in last.round.asleep]
    return bool(asleep) and bool(waited_for(job.spec, last.round.cluster, asleep))
