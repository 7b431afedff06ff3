"""From records to what users are shown (`core/schemas.py`). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..core.cluster import Cluster, Node
from ..core.decisions import WaitReason
from ..core.doors import Door
from ..core.events import shown_kind
from ..core.job import JobSpec, Phase
from ..core.job_limits import masked
from ..core.json_numbers import plain
from ..core.resources import Resources
from ..core.schemas import (
    ClusterView,
    DeviceRow,
    HealthView,
    JobDetails,
    JobEvent,
    JobRow,
    MachineRow,
    MetricPlace,
    NodeRow,
    PhaseRow,
    RefusedStatuses,
    TargetView,
    UsageFigures,
    UsageRow,
)
from ..core.settings import Settings
from ..core.sleeping import SleepingNode
from ..core.slot import Slot
from ..core.training_config import MetricTarget
from ..core.usage import Usage, UsageOn, idle_gpu_minutes
from ..policies.contract.explanation import Explanation
from ..policies.contract.policy import Policy
from ..policies.contract.round import Plan
from ..policies.warm_up import COMPILING
from .closures import Closed
from .habits import habits_of
from .hooks import RoundDone
from .jobs.fitting_types import runs_somewhere, waiting_reason
from .jobs.record import JobRecord, ProfileRun, Refusals
from .jobs.sleeping_nodes import waited_for, why_it_waits
from .loop import Health
from .nodes import NodesSnapshot
from .status import ends_s, status_of
from .store.events import Event
from .targets import progress


def job_row(
    job: JobRecord,
    waits: WaitReason | None = None,
    cluster: Cluster | None = None,
    asleep: Sequence[SleepingNode] = (),
) -> JobRow:
    """Return one line of `coadapt list`.

    `waits`: of `wait_reason`. `cluster`: None if it is not known. `asleep`: nodes that are powered off.
    """
    shown = job.group or job.target or tuple(run.slot for run in job.profiles if run.active and run.slot)
    types = {slot.gpu_type for slot in shown} if job.active else set()
    report, native = job.report, job.spec.door is Door.NATIVE
    return JobRow(
        id=job.id,
        name=job.spec.name,
        phase=job.phase.value,
        status=status_of(job).value,
        reason=_reason(job, cluster, asleep),
        wait_reason=None if waits is None else waits.value,
        gpu_type=types.pop() if len(types) == 1 else None,
        gpus=sum(slot.gpus for slot in shown) if job.active else 0,
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
        restarts=job.state.restarts,
        resizes=job.state.resizes,
        recoveries=job.state.recoveries,
        evictions=job.state.evictions,
        usage={gpu_type: usage_row(use) for gpu_type, use in sorted(job.usage.items())},
        idle_gpu_minutes=_rounded(idle_gpu_minutes(job.usage.values()), 2),
        failures=job.state.failures,
        owner=job.owner,
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


def _reason(job: JobRecord, cluster: Cluster | None = None, asleep: Sequence[SleepingNode] = ()) -> str:
    if job.quarantine and job.active:
        kept = ", it keeps its GPUs" if job.target else ""
        return f"quarantined{kept}, and `coadapt requeue {job.id}` lets it take part again: {job.quarantine}"
    if job.paused:
        return "paused by the user"
    if job.origin is not None and not job.origin.copied and job.active:
        return f"waiting for the checkpoint of step {job.origin.steps} of {job.origin.job_id}"
    if cluster is not None and (found := _waited_for(job, cluster, asleep)):
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
        return f"starts on {sum(slot.gpus for slot in job.target)}x{job.target[0].gpu_type}"
    return job.state.reason


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
) -> JobDetails:
    """Return what `coadapt describe` shows.

    `work`: where jobs' folders lie on each machine. `closed`: sentences on its nodes that take no new work.
    The others are those of `job_row`.
    """
    details = JobDetails(
        **job_row(job, waits, cluster, asleep),
        spec=shown_spec((job.changed or job).spec),
        events=[job_event(event) for event in events],
        devices=devices_of(job),
        profiles={run.gpu_type: profile_state(run, job.active) for run in job.profiles},
        folder=None if job.retired or job.package is None else f"{work}/{job.folder}",
        outputs=outputs,
        foretold=None if job.foretold is None else job.foretold.text,
        closed=list(closed),
        habits=habits_of(job.measurements, job.spec),
        refused_statuses=_refused(job.refusals),
    )
    if job.traceback and job.traceback != job.state.reason:
        details["traceback"] = job.traceback
    if (target := job.spec.training.target) is not None:
        details["target"] = target_view(target, job)
    return details


def shown_spec(spec: JobSpec) -> dict[str, Any]:
    """Return what a user wrote, without the values of variables that look like secrets."""
    return {**spec.model_dump(mode="json"), "env": masked(spec.env)}


def _refused(refusals: Refusals) -> RefusedStatuses | None:
    return RefusedStatuses(count=refusals.count, last=refusals.last) if refusals.count else None


def target_view(target: MetricTarget, job: JobRecord) -> TargetView:
    value = job.metrics.get(target.metric)
    return TargetView(
        metric=target.metric,
        at_least=target.at_least,
        at_most=target.at_most,
        value=value,
        reached=value is not None and target.reached(value),
        text=progress(target, job.metrics, ended=not job.active),
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


def job_event(event: Event) -> JobEvent:
    kind = shown_kind(event.kind)
    return JobEvent(time_s=event.time_s, kind=kind, text=str(event.data.get("text", kind)))


def numbered_event(event: Event) -> dict[str, Any]:
    """Return an event as the API sends it."""
    return {**job_event(event), "number": event.number, "job_id": event.job_id, "who": event.who}


def cluster_view(
    snapshot: NodesSnapshot,
    jobs: Sequence[JobRecord],
    settings: Settings,
    rounds: int,
    plan: Plan | None,
    *,
    compiling: bool = False,
    unplanned: str | None = None,
    events: Iterable[Event] = (),
    phases: Mapping[str, PhaseRow] | None = None,
    asleep: Sequence[MachineRow] = (),
    saved_kwh: float | None = None,
    power_notes: Iterable[str] = (),
    health: HealthView | None = None,
    ahead_s: float = 0.0,
) -> ClusterView:
    """Return what `coadapt cluster` shows: every usable node with what runs on it.

    compiling: whether the first round waits for its kernels.
    unplanned: why the last round has no plan; None: it has one.
    events: the newest that are of no job, oldest first.
    phases: how long each phase of the last rounds took; None before the first.
    asleep: machines whose nodes are not there, with what is done to them.
    saved_kwh: by these.
    power_notes: sentences on them, and on those that could be off.
    health: how the service is.
    ahead_s: by how much the machine's clock is ahead of the steady one.
    """
    held: dict[str, list[tuple[str, Slot]]] = {}
    for job in jobs:
        for slot in job.occupied:
            held.setdefault(slot.node_id, []).append((job.id, slot))
    here = sorted((*snapshot.cluster.nodes, *snapshot.closed_nodes))
    nodes = [node_row(node, held.get(node.id, ()), snapshot.closed.get(node.id), ahead_s) for node in here]
    notes = list(health["notes"]) if health else []
    notes += [note.text for note in plan.notes] if plan else []
    if compiling:
        notes.append(f"{COMPILING}; the first round waits for it")
    if unplanned is not None:
        notes.append(f"{unplanned}; jobs keep what they have")
    notes += [
        f"{found.machine} takes no new work: {found.told(ahead_s)}"
        for id, found in sorted(snapshot.closed.items())
        if id in snapshot.alive
    ]
    notes += power_notes
    return ClusterView(
        nodes=nodes,
        asleep=list(asleep),
        saved_kwh=saved_kwh,
        policy=settings.policy,
        round_interval_s=settings.round_interval_s,
        rounds=rounds,
        phases=dict(phases or {}),
        prices=dict(plan.prices) if plan else {},
        solver_s=plan.solver_s if plan else None,
        gap=plan.gap if plan and plan.placements and math.isfinite(plan.gap) else None,
        notes=notes,
        events=[job_event(event) for event in events],
    )


def health_view(health: Health, notes: Sequence[str], round_age_s: float | None) -> HealthView:
    """Return how the service is. `notes`: on its store."""
    trouble = [f"the last tick failed and is tried again: {health.trouble}"] if health.trouble else []
    return HealthView(
        tick_age_s=round(health.tick_age_s, 3),
        round_age_s=None if round_age_s is None else round(round_age_s, 3),
        degraded_since_s=None if health.degraded is None else health.degraded.since_s,
        degraded=None if health.degraded is None else health.degraded.reason,
        trouble=health.trouble,
        notes=[*notes, *trouble],
    )


def node_row(
    node: Node, held: Iterable[tuple[str, Slot]], closed: Closed | None = None, ahead_s: float = 0.0
) -> NodeRow:
    """Return a node with what is free of it and who holds the rest.

    `held`: its slots with their job ids. `closed`: why it takes no new work; None: it takes some.
    """
    free, gpus = Resources.of_node(node), dict[str, int]()
    tenants: dict[int, dict[str, float]] = {device: {} for device in range(node.gpus)}
    for job_id, slot in held:
        free -= Resources.of_slot(slot)
        gpus[job_id] = gpus.get(job_id, 0) + slot.gpus
        for device in slot.devices:
            tenants.setdefault(device, {})[job_id] = slot.share
    return NodeRow(
        id=node.id,
        machine=node.machine_name,
        gpu_type=node.gpu_type,
        pool=node.pool,
        gpus=node.gpus,
        free_gpus=sum(not tenants[device] for device in range(node.gpus)),
        cpus=node.cpus,
        free_cpus=_stated(free.cpus),
        memory_gib=node.memory_gib,
        free_memory_gib=_stated(free.memory_gib),
        emulated=node.emulated,
        closed="" if closed is None else closed.told(ahead_s),
        leaves=closed is not None and closed.leaves,
        deadline_s=None if closed is None else closed.deadline_s,
        jobs=gpus,
        devices=[
            DeviceRow(index=device, free=max(free.devices.get(device, 0.0), 0.0), tenants=tenants[device])
            for device in range(node.gpus)
        ],
    )


def _stated(amount: float) -> float | None:
    """Return an amount rounded for people; None if the node does not state one."""
    return max(round(amount, 6), 0.0) if math.isfinite(amount) else None


def devices_of(job: JobRecord) -> dict[str, list[int]]:
    """Return the GPUs that a job occupies, profile runs included, by node."""
    found: dict[str, set[int]] = {}
    for slot in job.occupied:
        found.setdefault(slot.node_id, set()).update(slot.devices)
    return {node: sorted(devices) for node, devices in sorted(found.items())}


def explain(
    job: JobRecord,
    last: RoundDone | None,
    policy: Policy,
    cluster: Cluster | None,
    unplanned: str | None = None,
    *,
    compiling: bool = False,
    asleep: Sequence[SleepingNode] = (),
) -> dict[str, Any]:
    """Return why a job has what it has: by the last round, or by where the job is if that says nothing of it.

    cluster: None if it is not known.
    unplanned: what the policy has failed to plan since the last round, or which pools in it.
    compiling: whether the first round waits for its kernels.
    asleep: nodes that are powered off. The policy knows nothing of them.
    """
    held_back = job.paused or bool(job.quarantine)
    outside = not job.active or held_back or last is None or all(v.id != job.id for v in last.round.jobs)
    sleeps = cluster is not None and _waited_for(job, cluster, asleep)
    if last is None or outside or sleeps or (not job.target and _slept_then(job, last)):
        return explanation_outside_round(job, cluster, compiling=compiling, asleep=asleep)
    found = explanation(policy.explain(job.id, last.round, last.plan))
    found["lines"] += _what_it_lacks(job, last.wanted.get(job.id, ()))
    failed = last.plan.failures
    if unplanned is not None and (not failed or (job.spec.pool or "") in failed):
        when = "In this round" if failed else f"This is of round {last.number}. Since then"
        found["lines"].append(f"{when} {unplanned}; jobs keep what they have.")
    return found


def _what_it_lacks(job: JobRecord, given: Iterable[Slot]) -> list[str]:
    """Return a line on slots that the last round gave to a job and that it does not have."""
    if not set(job.target) < set(given):
        return []
    has = f"{sum(slot.gpus for slot in job.target)}x{job.target[0].gpu_type}" if job.target else "none"
    return [f"It has {has} of these GPUs now: the others are not free yet, or it gave them up since."]


def why_not_in_round(
    job: JobRecord,
    cluster: Cluster | None,
    *,
    compiling: bool = False,
    asleep: Sequence[SleepingNode] = (),
) -> str:
    """One sentence for a job that took no part in the last round."""
    if not job.active:
        was = "was" if job.phase is Phase.CANCELLED else f"has {job.phase.value}:"
        return f"{job.id} {was} {job.state.reason}; `coadapt describe {job.id}` tells what it had"
    why = _reason(job, cluster, asleep) or (WaitReason.COMPILING if compiling else WaitReason.NEXT_ROUND).line
    status = status_of(job).value
    return f"{job.id} is {why}" if why.startswith(status) else f"{job.id} is {status}: {why}"


def explanation_outside_round(
    job: JobRecord,
    cluster: Cluster | None,
    *,
    compiling: bool = False,
    asleep: Sequence[SleepingNode] = (),
) -> dict[str, Any]:
    """Return what `explain` answers for a job that took no part in the last round.

    `decision` is "placed", "waiting" or "ended"; `reason` is a code of `WaitReason`, or how the job ended.
    """
    decision, reason = "waiting", _why_outside(job, cluster, compiling, asleep).value
    if not job.active:
        decision, reason = "ended", job.phase.value
    return {
        "job_id": job.id,
        "name": job.spec.name,
        "decision": "placed" if job.active and job.target else decision,
        "reason": None if job.active and job.target else reason,
        "lines": [why_not_in_round(job, cluster, compiling=compiling, asleep=asleep)],
    }


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
    held_back = job.paused or bool(job.quarantine)
    if not held_back and cluster is not None and _waited_for(job, cluster, asleep):
        return WaitReason.NODE_ASLEEP
    told = last is not None and not held_back and not _slept_then(job, last)
    said = last.wait_reason(job.id) if last is not None and told else None
    return said or _why_outside(job, cluster, compiling, asleep)


def _why_outside(
    job: JobRecord, cluster: Cluster | None, compiling: bool, asleep: Sequence[SleepingNode] = ()
) -> WaitReason:
    if job.quarantine:
        return WaitReason.QUARANTINED
    if job.paused:
        return WaitReason.PAUSED
    if cluster is not None and _waited_for(job, cluster, asleep):
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


def _waited_for(job: JobRecord, cluster: Cluster, asleep: Sequence[SleepingNode]) -> tuple[SleepingNode, ...]:
    """Return the sleeping nodes that an active job waits for, which occupies nothing and is not being measured."""
    if not asleep or not job.active or job.occupied or (job.origin is not None and not job.origin.copied):
        return ()
    if job.phase is Phase.PROFILING and runs_somewhere(job.spec, cluster):
        return ()
    return waited_for(job.spec, cluster, asleep)


def _slept_then(job: JobRecord, last: RoundDone) -> bool:
    """Return whether a job waited for sleeping nodes in the last round, of which its policy knew nothing."""
    asleep = [SleepingNode(node) for node in last.round.asleep]
    return bool(asleep) and bool(waited_for(job.spec, last.round.cluster, asleep))


def explanation(explained: Explanation) -> dict[str, Any]:
    """Return an explanation as plain JSON values, with its lines for people."""
    found: dict[str, Any] = plain(explained.to_dict())
    return found
