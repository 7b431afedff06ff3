"""Keeps a job's profile runs in step with time, nodes and other jobs' measurements. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...core.cluster import Cluster
from ...core.events import EventKind
from ...core.job import Phase
from ...core.settings import Settings
from ...core.sleeping import SleepingNode
from ...core.slot import Slot
from ..jobs.fitting_types import allowed_types
from ..jobs.lifecycle import advance
from ..jobs.record import JobRecord, ProfileRun
from ..store.events import Event
from . import profile_reuse
from .commands import Command, EndProfile, RestartExecutor
from .habits import fits_nowhere
from .reactions import Reaction, end, give_up_profile
from .unmeasured_types import with_new_types

MOST_ASKED = 3  # times that a run is asked to leave again before what trains beside it is interrupted


def _admitted(job: JobRecord, now: float, text: str) -> Event:
    return Event(EventKind.ADMITTED, now, job.id, {"text": text})


def measure_on_new_types(job: JobRecord, cluster: Cluster, now: float) -> Reaction:
    """Have a queued or running job also measured on GPU types that are new in the cluster."""
    changed = with_new_types(job, cluster)
    before = {run.gpu_type for run in job.profiles}
    new = [run.gpu_type for run in changed.profiles if run.startable and run.gpu_type not in before]
    if not new:
        return Reaction(changed)
    return Reaction(
        changed, (_admitted(job, now, f"to be measured on {', '.join(new)}, new in the cluster"),), round=True
    )


def measure_on_present_types(
    job: JobRecord, cluster: Cluster, now: float, asleep: Sequence[SleepingNode] = ()
) -> Reaction:
    """Measure on the GPU types there are now, where those the job waits for have all gone or sleep."""
    open_runs = [run for run in job.profiles if run.ok is None]
    present = allowed_types(job.spec, cluster)
    # The record of a run is all that says that its worker may still be in its slot.
    if not present or not open_runs or any(run.slot is not None for run in open_runs):
        return Reaction(job)
    if any(run.gpu_type in present for run in open_runs):
        return Reaction(job)
    done = tuple(run for run in job.profiles if run.ok is not None)
    new = tuple(ProfileRun(t) for t in present if t not in {run.gpu_type for run in done})
    sleep = {run.gpu_type for run in open_runs} & {one.node.gpu_type for one in asleep}
    gone = f"its nodes of type {', '.join(sorted(sleep))} sleep" if sleep else "its GPU types are gone"
    text = f"to be measured on {', '.join(run.gpu_type for run in new)}" if new else gone
    return Reaction(replace(job, profiles=(*done, *new)), (_admitted(job, now, text),), round=True)


def skip_known(job: JobRecord, with_known: Callable[[JobRecord], JobRecord], now: float) -> Reaction:
    """Skip the runs on GPU types that another job of the same script or model has measured by now.

    The script is known from the start, the model's fingerprint after the first run.
    """
    open_runs = [run for run in job.profiles if run.startable]
    if not open_runs:
        return Reaction(job)
    told = replace(job, fingerprint=job.fingerprint or profile_reuse.fingerprint(job.measurements))
    told = with_known(told)
    known = profile_reuse.measured_types(told.measurements)
    profiles = tuple(
        replace(run, ok=True, reason="known from another job")
        if run in open_runs and run.gpu_type in known
        else run
        for run in job.profiles
    )
    if profiles == job.profiles and told.fingerprint == job.fingerprint:
        return Reaction(job)
    names = ", ".join(run.gpu_type for run in open_runs if run.gpu_type in known)
    told_of = Event(EventKind.PROFILED, now, job.id, {"text": f"{names} known from another job"})
    return Reaction(replace(told, profiles=profiles), (told_of,) if names else ())


def give_up_late(job: JobRecord, settings: Settings, now: float) -> Reaction:
    """End the first run that takes too long, or have the first ended run leave that still has its GPU.

    The command to leave may be lost, so it is sent again. The executor is restarted only if that does not help, or
    if its job holds no other slots.
    """
    limit_s = settings.profile_timeout_s
    for run in job.profiles:
        if run.slot is None:
            continue
        if run.active and run.started_s is not None and now - run.started_s > limit_s:
            return give_up_profile(
                job, run.gpu_type, f"the profile run on {run.gpu_type} did not end in {limit_s:.0f} s", now
            )
        stuck = run.ended_s is not None and now - run.ended_s > settings.release_timeout_s
        if not run.active and stuck:
            return _have_leave(job, run, run.slot, now)
    return Reaction(job)


def _have_leave(job: JobRecord, run: ProfileRun, slot: Slot, now: float) -> Reaction:
    """Return the record to write before a run that has ended is made to leave; its time to leave begins anew."""
    again = bool(job.held) and run.asked < MOST_ASKED
    command: Command = EndProfile(slot, run.sequence) if again else RestartExecutor()
    waits = replace(run, ended_s=now, asked=run.asked + 1 if again else 0)
    how = "it is asked again" if again else "its executor is restarted"
    text = f"did not leave its GPU on {run.gpu_type} in time, {how}"
    return Reaction(
        replace(job, profiles=tuple(waits if r is run else r for r in job.profiles)),
        (Event(EventKind.LATE, now, job.id, {"text": text}),),
        commands=(command,),
    )


def finish_profiling(job: JobRecord, settings: Settings, now: float) -> Reaction:
    """Queue a job whose runs have ended, or that has waited long enough for the rest. Fail one that cannot run."""
    open_runs = [run for run in job.profiles if run.ok is None]
    measured = profile_reuse.measured_types(job.measurements)
    known = [gpu_type for gpu_type in measured if job.spec.gpus_per_replica(gpu_type) is not None]
    waited = now - job.state.submitted_s > settings.profile_patience_s
    if open_runs and not (known and waited and not any(run.active for run in open_runs)):
        return Reaction(job)
    if known and not open_runs and (why := fits_nowhere(job.measurements, job.spec)):
        return end(job, Phase.FAILED, why, now)
    if known or not job.profiles:
        return Reaction(replace(job, state=advance(job.state, Phase.QUEUED, now, "waiting for GPUs")), round=True)
    return end(job, Phase.FAILED, why_not_measured(job), now)


def why_not_measured(job: JobRecord) -> str:
    """Tell why all profile runs of a job failed. A reason that several GPU types share is told once."""
    types: dict[str, list[str]] = {}
    for run in job.profiles:
        types.setdefault(run.reason, []).append(run.gpu_type)
    reasons = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in types.items())
    return f"could not be measured on any GPU type: {reasons}"
