"""A job as users are shown it: its row and its details. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...core.cluster import Cluster
from ...core.decisions import WaitReason
from ...core.doors import Door
from ...core.expected import Expected
from ...core.job import JobSpec, Phase
from ...core.job_limits import masked
from ...core.schemas import (
    JobDetails,
    JobRow,
    MetricPlace,
    RefusedStatuses,
    TargetView,
    UsageFigures,
    UsageRow,
)
from ...core.sleeping import SleepingNode
from ...core.teams import Priority
from ...core.training_config import MetricTarget
from ...core.usage import Usage, UsageOn, idle_gpu_minutes
from ..changes.habits import habits_of
from ..changes.input_habits import input_habits_of
from ..changes.status import ends_s, status_of
from ..changes.targets import progress
from ..jobs.due import due_s
from ..jobs.record import JobRecord, ProfileRun, Refusals
from ..store.events import Event
from .event_views import job_event
from .waiting import reason_shown


def job_row(
    job: JobRecord,
    waits: WaitReason | None = None,
    cluster: Cluster | None = None,
    asleep: Sequence[SleepingNode] = (),
    beside: Sequence[str] = (),
) -> JobRow:
    """Return one line of `coadapt list`.

    `waits`: of `wait_reason`. `cluster`: None if it is not known. `asleep`: nodes that are powered off.
    `beside`: of `jobs_beside`.
    """
    shown = job.group or job.target or tuple(run.slot for run in job.profiles if run.active and run.slot)
    types = {slot.gpu_type for slot in shown} if job.active else set()
    report, native = job.report, job.spec.door is Door.NATIVE
    return JobRow(
        id=job.id,
        name=job.spec.name,
        phase=job.phase.value,
        status=status_of(job).value,
        reason=reason_shown(job, cluster, asleep),
        wait_reason=None if waits is None else waits.value,
        gpu_type=types.pop() if len(types) == 1 else None,
        gpus=sum(slot.gpus for slot in shown) if job.active else 0,
        share=min((slot.share for slot in shown), default=1.0) if job.active else 1.0,
        beside=list(beside) if job.active else [],
        borrows=job.borrows and bool(shown) and job.active,
        nodes=sorted({slot.node_id for slot in shown}) if job.active else [],
        emulated=any(slot.emulated for slot in shown),
        batch_size=report.get("batch_size") or None,  # a command may tell none
        local_bsz=report.get("local_bsz") or None,
        accumulation=report.get("accumulation"),
        lr=report.get("lr") if native else report.get("lr") or None,
        gain=report.get("gain") if native else None,
        epoch=report.get("epoch"),
        epochs=report.get("epochs"),
        fraction=_fraction(job),
        ends_s=ends_s(job),
        has_target=job.spec.training.target is not None,
        steps=int(report.get("steps", 0)),
        metrics=dict(job.metrics),
        measured_at={
            name: MetricPlace(epoch=at.epoch, samples=at.samples) for name, at in job.measured_at.items()
        },
        submitted_s=job.state.submitted_s,
        started_s=job.state.started_s,
        finished_s=job.state.finished_s,
        due_s=due_s(job),
        restarts=job.state.restarts,
        resizes=job.state.resizes,
        recoveries=job.state.recoveries,
        evictions=job.state.evictions,
        usage={gpu_type: usage_row(use) for gpu_type, use in sorted(job.usage.items())},
        idle_gpu_minutes=_rounded(idle_gpu_minutes(job.usage.values()), 2),
        failures=job.state.failures,
        owner=job.owner,
        team=job.spec.team or "",
        priority=(job.spec.priority or Priority.NORMAL).value,
        weight=job.spec.weight,
        labels=dict(job.spec.labels),
        array=job.array,
        array_index=job.array_index,
        array_values=dict(job.array_values),
    )


def usage_row(use: UsageOn) -> UsageRow:
    """Return a job's use of one GPU type as it is shown."""
    return UsageRow(
        mean=_figures(use.mean),
        recent=_figures(use.recent),
        gpu_s=round(use.mean.seconds, 1),
        idle_gpu_minutes=round(use.mean.idle_gpu_minutes, 2),
        emulated=use.mean.emulated,
    )


def _figures(usage: Usage) -> UsageFigures:
    return UsageFigures(
        gpu_util=_rounded(usage.gpu_util, 4),
        memory_util=_rounded(usage.memory_util, 4),
        memory_gib=_rounded(usage.memory_gib, 3),
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _fraction(job: JobRecord) -> float:
    # Where a command says nothing of its progress, its exit status says that all is done.
    done = job.phase is Phase.SUCCEEDED and (not job.ended_early or job.spec.door is not Door.NATIVE)
    return 1.0 if done else float(job.report.get("fraction", 0.0))


def job_details(
    job: JobRecord,
    events: Iterable[Event],
    work: str = "",
    outputs: str = "",
    waits: WaitReason | None = None,
    cluster: Cluster | None = None,
    asleep: Sequence[SleepingNode] = (),
    *,
    closed: Sequence[str] = (),
    beside: Sequence[str] = (),
    expected: Expected | None = None,
) -> JobDetails:
    """Return what `coadapt describe` shows.

    `work`: where jobs' folders lie on each machine. `closed`: sentences on its nodes that take no new work.
    `expected`: how long it still needs, as the last round planned; None: unknown.
    The others are those of `job_row`.
    """
    details = JobDetails(
        **job_row(job, waits, cluster, asleep, beside),
        spec=shown_spec((job.changed or job).spec),
        events=[job_event(event) for event in events],
        devices=devices_of(job),
        profiles={run.gpu_type: profile_state(run, job.active) for run in job.profiles},
        folder=None if job.retired or job.package is None else f"{work}/{job.folder}",
        outputs=outputs,
        foretold=None if job.foretold is None else job.foretold.text,
        closed=list(closed),
        habits=[*habits_of(job.measurements, job.spec), *input_habits_of(job.measurements)],
        refused_statuses=_refused(job.refusals),
        on_hold=job.on_hold,
        held_by=job.held_by,
    )
    if job.traceback and job.traceback != job.state.reason:
        details["traceback"] = job.traceback
    if (target := job.spec.training.target) is not None:
        details["target"] = target_view(target, job, expected)
    return details


def shown_spec(spec: JobSpec) -> dict[str, Any]:
    """Return what a user wrote, without the values of variables that look like secrets."""
    return {**spec.model_dump(mode="json"), "env": masked(spec.env)}


def _refused(refusals: Refusals) -> RefusedStatuses | None:
    return RefusedStatuses(count=refusals.count, last=refusals.last) if refusals.count else None


def target_view(target: MetricTarget, job: JobRecord, expected: Expected | None = None) -> TargetView:
    value = job.metrics.get(target.metric)
    text = progress(target, job.metrics, ended=not job.active)
    return TargetView(
        metric=target.metric,
        at_least=target.at_least,
        at_most=target.at_most,
        value=value,
        reached=value is not None and target.reached(value),
        text=text if expected is None or not job.active else f"{text}; {expected.text}",
    )


def profile_state(run: ProfileRun, active: bool) -> str:
    """Return in words how far a profile run is. `active`: whether its job goes on."""
    if run.ok:
        return f"measured ({run.reason})" if run.reason else "measured"
    if run.ok is False:
        return f"could not be measured: {run.reason}"
    if run.active:
        return "being measured"
    if run.reason:
        return f"{'to be measured again' if active else 'could not be measured'}: {run.reason}"
    return "to be measured" if active else "not measured"


def jobs_beside(jobs: Iterable[JobRecord]) -> dict[str, list[str]]:
    """Return, for each job that shares GPUs, those that share some of them, by id.

    A job of another user and team is told as "another job".
    """
    on: dict[tuple[str, int], list[JobRecord]] = {}
    for job in jobs:
        for slot in job.occupied:
            if slot.share < 1:
                for device in slot.devices:
                    on.setdefault((slot.node_id, device), []).append(job)
    found: dict[str, set[str]] = {}
    for here in on.values():
        for job in here:
            found.setdefault(job.id, set()).update(_named_for(job, other) for other in here if other is not job)
    return {id: sorted(others) for id, others in found.items() if others}


def _named_for(job: JobRecord, other: JobRecord) -> str:
    team = job.spec.team
    return other.id if other.owner == job.owner or (team and other.spec.team == team) else "another job"


def devices_of(job: JobRecord) -> dict[str, list[int]]:
    """Return the GPUs that a job occupies, profile runs included, by node."""
    found: dict[str, set[int]] = {}
    for slot in job.occupied:
        found.setdefault(slot.node_id, set()).update(slot.devices)
    return {node: sorted(devices) for node, devices in sorted(found.items())}
