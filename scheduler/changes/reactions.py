"""Changes a job's record when its executor reports an event. Pure: `react(job, event, now)`.

Events may come twice, and late after a restart of the service. So a reaction that is repeated changes nothing,
and no event moves a job that has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.events import EventKind
from ...core.job import Phase, RestartPolicy
from ...core.reports import Report
from ...core.slot import Slot
from ...core.wording import amount
from ...estimators.foretold import Foretold
from ...executor.protocol.job_events import (
    AtRest,
    Checkpointed,
    CoresHeld,
    ExecutorEvent,
    Failing,
    GpuNoticed,
    JobFailed,
    JobFinished,
    Killed,
    ProfileFinished,
    Released,
    Reported,
    Running,
    Standing,
    StatusesRefused,
    Used,
    WorkerLost,
)
from ...executor.protocol.metric_limits import bounded, places
from ...executor.reconciling.failures import NO_OTHER_END, POLICY, SAME_TWICE, fault_of, is_final, too_many
from ..jobs.lifecycle import advance
from ..jobs.record import JobRecord, ProfileRun, Stopped
from ..store.events import Event
from . import profile_reuse
from .commands import Command, EndProfile, RestartExecutor
from .gpu_use import with_usage
from .saved_work import saved_for_notice
from .status import with_point
from .targets import EPOCHS_TO_REPORT, ending, missing, with_evaluation
from .trial_rows import of_row

MOST_PENDING = 8  # remembered commands of a job that is redirected again and again
PROFILE_TRIES = 2
PROFILE_LOSSES = 5  # a lost worker is not the job's fault, but so many are


@dataclass(frozen=True)
class Reaction:
    """The changed record, lines for the log, whether a round should follow soon, and commands to send."""

    job: JobRecord
    events: tuple[Event, ...] = ()
    round: bool = False
    commands: tuple[Command, ...] = ()


def with_forecast(job: JobRecord, foretold: Foretold) -> Reaction:
    """Keep how long a job takes, as it was foretold at its submission; the first forecast stays."""
    return Reaction(job if job.foretold is not None else replace(job, foretold=foretold))


def react(job: JobRecord, event: ExecutorEvent, now: float) -> Reaction:
    """Return what one event changes. Raises: TypeError for anything else than an event."""
    if isinstance(event, Released):
        return _released(job, event, now)
    if isinstance(event, Killed):  # also after the job was cancelled
        return Reaction(job, (_event(job, EventKind.KILLED, now, event.what),))
    if not job.active or job.renews:
        return Reaction(job)
    match event:
        case ProfileFinished():
            return _profile_finished(job, event, now)
        case Running():
            return _running(job, event, now)
        case Reported():
            return _reported(job, event, now)
        case Standing(node_id):
            return Reaction(replace(job, executor_node=node_id))
        case AtRest(kept, measured):
            measurements = profile_reuse.kept(measured, job.measurements)
            return Reaction(replace(job, kept=dict(kept), measurements=measurements))
        case Used():
            changed, idle = with_usage(job, event, now)
            return Reaction(changed, (_event(changed, EventKind.IDLE, now, idle),) if idle else ())
        case Checkpointed(steps, took_s):
            told = saved_for_notice(job, steps, took_s, now)
            return Reaction(replace(job, saved_steps=steps, saving_s=took_s), told)
        case GpuNoticed(text):
            return Reaction(job, (_event(job, EventKind.GPU, now, text),))
        case CoresHeld(by_node):
            return Reaction(replace(job, cores=dict(by_node)))
        case StatusesRefused(executor, count, last):
            return Reaction(replace(job, refusals=job.refusals.with_more(executor, count, last)))
        case WorkerLost(reason):
            return Reaction(job, (_event(job, EventKind.LOST, now, f"a worker was lost: {reason}"),))
        case Failing():
            return _failing(job, event, now)
        case JobFinished(metrics, target_reached, ended_early):
            target = job.spec.training.target
            metrics, _ = bounded(job.metrics, metrics, target.metric if target is not None else "")
            phase, text = ending(target, metrics, target_reached, ended_early)
            at = places(metrics, job.measured_at, None)
            return end(job, phase, text, now, metrics=metrics, measured_at=at, ended_early=ended_early)
        case JobFailed(summary, traceback, tries, why):
            return _fail(job, summary, traceback, job.faults + tries, now, why)
    raise TypeError(f"event: {type(event).__name__} is not an executor event")


def end(job: JobRecord, phase: Phase, reason: str, now: float, why: str = "", **changes: Any) -> Reaction:
    """End a job. What it holds stays counted until it is released.

    Args:
        why: why the job did not go on, for its log.
    """
    ended = replace(
        job,
        state=advance(job.state, phase, now, reason),
        target=(),
        held=job.occupied,
        group=(),
        profiles=tuple(_reset(run) for run in job.profiles),
        pending_since_s=now if job.occupied else None,
        paused=False,
        renews=False,
        cancelled_s=None,
        **changes,
    )
    kind = EventKind.CANCEL if phase is Phase.CANCELLED else EventKind.FINISH
    text = f"{reason} ({why})" if why else reason
    return Reaction(ended, (_event(job, kind, now, text, phase=phase.value, metrics=ended.metrics),), round=True)


def _fail(job: JobRecord, summary: str, traceback: str, failures: int, now: float, why: str) -> Reaction:
    failed = replace(job, state=replace(job.state, failures=failures), traceback=traceback or job.traceback)
    if job.cancelled_s is not None:
        return end(failed, Phase.CANCELLED, f"{why_it_ends(job)}; as it left, its script failed: {summary}", now)
    return end(failed, Phase.FAILED, summary, now, why)


def why_it_ends(job: JobRecord) -> str:
    """Return why a job saves and ends."""
    return job.ending or "cancelled by the user"


def _failing(job: JobRecord, event: Failing, now: float) -> Reaction:
    failures = job.faults + event.tries
    text = f"try {failures} failed: {event.summary}"
    changed = replace(
        job,
        state=replace(job.state, failures=failures, reason=f"the script failed (try {failures}): {event.summary}"),
        traceback=event.traceback or job.traceback,
        retrying=True,
    )
    return Reaction(changed, (_event(job, EventKind.FAILING, now, text, tries=failures),))


def lose_everything(job: JobRecord, reason: str, now: float) -> Reaction:
    """Queue a job whose executor and workers are all gone. It will go on from its last checkpoint."""
    if not job.active or job.renews:
        return Reaction(replace(job, held=(), pending_since_s=None))
    had = bool(job.occupied)
    leaving = job.stopped is not None and not job.target  # it was told to leave, so this is no recovery
    state = replace(job.state, recoveries=job.state.recoveries + (had and not leaving), reason=reason)
    lost = replace(
        job,
        state=state,
        target=(),
        held=(),
        group=(),
        pending_commands=(),
        last_grant=(),
        generation=0,
        pending_since_s=None,
        retrying=False,
        profiles=tuple(_reset(run) for run in job.profiles),
    )
    if job.spec.restarts is RestartPolicy.NEVER and job.held and job.state.started_s is not None and not leaving:
        return end(lost, Phase.FAILED, reason, now, POLICY)
    told = (_event(job, EventKind.LOST, now, reason, held={}),) if had else ()
    return Reaction(_requeue(lost, reason, now), told, round=True)


def lose_slots(
    job: JobRecord, alive: frozenset[str], now: float, why: Callable[[set[str]], str] = lambda gone: ""
) -> Reaction:
    """Take away a job's slots on nodes that are gone. Its executor recovers with what is left.

    Args:
        why: returns what else is known of nodes that are gone.
    """
    gone = {slot.node_id for slot in job.occupied} - alive
    if not gone:
        return Reaction(job)
    keep = [tuple(s for s in slots if s.node_id not in gone) for slots in (job.target, job.held, job.group)]
    known = why(gone)
    changed = replace(
        job,
        notice=None if known else job.notice,
        target=keep[0],
        held=keep[1],
        group=keep[2],
        profiles=tuple(
            _reset(run) if run.slot is not None and run.slot.node_id in gone else run for run in job.profiles
        ),
        pending_since_s=job.pending_since_s if set(keep[1]) - set(keep[0]) else None,
    )
    text = f"lost node {', '.join(sorted(node[:8] for node in gone))}{known}"
    told = _event(job, EventKind.LOST, now, text, **_held(changed.held))
    return Reaction(_requeue(changed, text, now), (told,), round=True)


def _profile_finished(job: JobRecord, event: ProfileFinished, now: float) -> Reaction:
    run = job.profile(event.gpu_type)
    if run is None or not run.active or event.sequence != run.sequence:
        return Reaction(job)
    # The run keeps its slot until the executor sends `Released` for it.
    done = replace(run, ok=event.ok, reason=event.reason, tries=run.tries + 1, ended_s=now)
    if event.lost and run.losses < PROFILE_LOSSES:
        done = replace(done, ok=None, started_s=None, tries=run.tries, losses=run.losses + 1)
    elif not event.ok and done.tries < PROFILE_TRIES:
        # The machine may have been at fault rather than the script, so the run is tried again.
        done = replace(done, ok=None, started_s=None)
    changed = replace(
        job,
        profiles=tuple(done if r is run else r for r in job.profiles),
        measurements=profile_reuse.kept(event.measurements, job.measurements),
        traceback=event.traceback or job.traceback,
    )
    outcome = "measured" if event.ok else f"could not be measured: {event.reason}"
    text = f"{event.gpu_type} {outcome}"
    told = _event(job, EventKind.PROFILED, now, text, gpu_type=event.gpu_type, ok=event.ok)
    if event.fault and not event.lost:
        return _fault_while_measured(changed, event, told, now)
    return Reaction(changed, (told,), True)


def _fault_while_measured(job: JobRecord, event: ProfileFinished, told: Event, now: float) -> Reaction:
    """Count an error of the script itself, and end the job where another try is pointless.

    The same error on two GPU types ends the job, as training would meet it too. The same error twice on one type
    ends it only when the runs on all other types have failed.
    """
    fault = fault_of(event.reason, event.traceback)
    here = job.profile(event.gpu_type)
    others = [run for run in job.profiles if run is not here]
    elsewhere = any(run.fault == fault for run in others)
    again = here is not None and here.fault == fault and all(run.ok is False for run in others)
    if is_final(event.reason):
        why = NO_OTHER_END
    elif elsewhere or again:
        why = SAME_TWICE
    elif job.spec.restarts is not RestartPolicy.ON_FAILURE:
        why = POLICY
    else:
        why = too_many(job.faults + 1, job.spec.max_failures)
    changed = replace(
        job,
        state=replace(job.state, failures=job.state.failures + 1),
        faults=job.faults + 1,
        profiles=tuple(replace(run, fault=fault) if run is here else run for run in job.profiles),
    )
    if not why:
        return Reaction(changed, (told,), round=True)
    ended = _fail(changed, event.reason, event.traceback, changed.state.failures, now, why)
    return replace(ended, events=(told, *ended.events))


def _running(job: JobRecord, event: Running, now: float) -> Reaction:
    if not event.slots or event.sequence > job.sequence:
        return Reaction(job)
    if 0 < event.generation <= job.generation:  # told before, so its pause is counted already
        event = replace(event, pause_s=None, recovered=False, retried=False)
    gpu_type = event.slots[0].gpu_type
    gpus = sum(slot.gpus for slot in event.slots)
    # A pause after an error of the script is the script's own, and no cost of a restart.
    paused = event.pause_s is not None and not event.retried
    asked_s = dict(job.pending_commands).get(event.sequence)  # it may answer an earlier command than the last
    waited_s = None if asked_s is None else max(now - asked_s, 0.0)
    started = waited_s is not None and not set(event.slots) <= set(job.group)
    # A job that had stopped before it was given GPUs has paused longer than it waited for them: no move.
    moved = paused and waited_s is not None and (event.pause_s or 0.0) <= waited_s and not event.recovered
    resized = paused and not event.recovered and job.phase is Phase.RUNNING and job.stopped is None
    state = replace(
        advance(job.state, Phase.RUNNING, now),
        restarts=job.state.restarts + paused,
        resizes=job.state.resizes + resized,
        recoveries=job.state.recoveries + event.recovered,
    )
    # A restarted executor may have received the last command after it said that it had nothing.
    target = job.target or (event.slots if event.sequence == job.sequence else ())
    held = tuple(sorted({*job.held, *event.slots}))
    group = _as_in(held, event.slots)  # an executor knows the shares of slots as they were when it started there
    pending_since_s = job.pending_since_s
    if set(held) - set(target) and (asked_s is not None or pending_since_s is None):
        pending_since_s = now  # until now it waited for new processes; from now on it only has to leave
    changed = replace(
        job,
        state=state,
        group=group,
        target=target,
        held=held,
        generation=event.generation or job.generation,
        stopped=None if job.target else job.stopped,
        reached=job.reached if event.slots == job.group else ((now, float(job.report.get("fraction", 0.0))),),
        retrying=False,
        pauses=job.pauses + paused,
        lost_s=job.lost_s + (_lost_s(job, event, waited_s) if paused else 0.0),
        moves=job.moves + moved,
        moving_s=job.moving_s + (event.pause_s or 0.0 if moved else 0.0),
        pending_commands=tuple(one for one in job.pending_commands if one[0] > event.sequence),
        last_grant=tuple(one for one in job.last_grant if one[0] > event.sequence),
        pending_since_s=pending_since_s,
        starts=job.starts + started,
        starting_s=job.starting_s + (waited_s or 0.0 if started else 0.0),
        largest_gpus={**job.largest_gpus, gpu_type: max(job.largest_gpus.get(gpu_type, 0), gpus)},
    )
    nodes = len({slot.node_id for slot in event.slots})
    has = amount(gpus, gpu_type, min(slot.share for slot in group))
    text = f"runs on {has} on {nodes} node{'s' * (nodes > 1)}{_after(job, event)}"
    data = {"gpu_type": gpu_type, "gpus": gpus, "nodes": nodes, "warm": event.warm, "pause_s": event.pause_s}
    data |= {"first": job.state.started_s is None, "elsewhere": set(event.slots) != set(job.group)}
    data |= _held(changed.held)
    return Reaction(changed, (_event(job, EventKind.RUNNING, now, text, recovered=event.recovered, **data),))


def _as_in(held: Iterable[Slot], slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """Return slots with the amounts that a job holds of them."""
    now = {slot: slot for slot in held}
    return tuple(now.get(slot, slot) for slot in slots)


def _after(job: JobRecord, event: Running) -> str:
    """Tell how long a job had not trained before it runs again, and why."""
    if event.pause_s is None:
        return ""
    if event.retried:
        return f", again {event.pause_s:.2f} s after its script failed"
    if job.phase is Phase.QUEUED and job.stopped in _WAS:
        return f", after it was {_WAS[job.stopped]} for {event.pause_s:.2f} s"
    why = ", recovered" if event.recovered else ""
    return f"{why}, {'warm' if event.warm else 'cold'}, pause {event.pause_s:.2f} s"


_WAS = {Stopped.EVICTED: "evicted", Stopped.PAUSED: "paused", Stopped.REQUEUED: "requeued"}


def _lost_s(job: JobRecord, event: Running, waited_s: float | None) -> float:
    """Return the seconds that a restart cost the whole group.

    A warm resize hardly interrupts training. But GPUs that joined were held while their processes started, and
    count in proportion. A pause beyond `waited_s` was time in the queue, and does not count.

    Args:
        waited_s: seconds since the command that gave the job its GPUs; None if there was no such command.
    """
    if event.pause_s is None:
        return 0.0
    if waited_s is None:
        return event.pause_s
    joined = len(set(event.slots) - set(job.group)) / len(event.slots)
    return max(min(event.pause_s, waited_s), joined * waited_s)


def _released(job: JobRecord, event: Released, now: float) -> Reaction:
    if event.everything:
        # An executor that has just started says so too, before it knows of any command.
        return lose_everything(job, "its executor was restarted", now) if job.occupied else Reaction(job)
    # The event says nothing about slots that later commands gave to the job again.
    unanswered = tuple(one for one in job.last_grant if one[0] > event.sequence)
    gone = set(event.slots) - {slot for _, slot in unanswered}
    held = tuple(slot for slot in job.held if slot not in gone)
    target = tuple(slot for slot in job.target if slot not in gone)
    changed = replace(
        job,
        # An active run ends by `ProfileFinished`, so this event is of an earlier run in the same slot.
        profiles=tuple(_reset(run) if run.slot in gone and not run.active else run for run in job.profiles),
        held=held,
        target=target,
        last_grant=unanswered,
        group=tuple(slot for slot in job.group if slot in held),
        pending_since_s=job.pending_since_s if set(held) - set(target) else None,
        saved_step=job.saved_step if event.saved_step is None else event.saved_step,
    )
    if changed == job:
        return Reaction(job)
    changed = _requeue(changed, "waiting for GPUs", now)
    texts = _who_left(job, gone)
    if texts and event.saved_step is not None:
        texts[-1] += f"; it saved at step {event.saved_step}"
    kind = EventKind.EVICTED if changed.state.evictions > job.state.evictions else EventKind.RELEASED
    # A round would give slots where nothing could start again at once, so only those that trained ask for one.
    lost = job.active and bool((set(job.target) - set(target)) & set(job.group))
    told = _event(job, kind, now, "; ".join(texts), **_held(held))
    return Reaction(changed, (told,) if texts else (), round=lost)


def _who_left(job: JobRecord, gone: set[Slot]) -> list[str]:
    """Return a clause for each part of a job that has left GPUs: which ones, and why."""
    measured = [run.slot for run in job.profiles if run.slot in gone and not run.active]
    trained = [slot for slot in job.held if slot in gone and slot not in measured]
    given_up = [slot for slot in trained if slot in job.target]
    moved = [slot for slot in trained if slot not in job.target]
    if not job.active:
        return (
            [f"its workers left {gpus_of(gone & set(job.occupied))}: it has ended"]
            if gone & set(job.occupied)
            else []
        )
    clauses = [f"its profile run left {gpus_of(measured)}"] if measured else []
    if given_up:
        clauses.append(f"training gave up {gpus_of(given_up)}: its workers could not start there")
    if moved:
        clauses.append(f"training left {gpus_of(moved)}{_why_it_left(job, moved)}")
    return clauses


def _why_it_left(job: JobRecord, moved: Iterable[Slot]) -> str:
    if job.target:
        wanted = gpus_of(job.target)
        return f" for {wanted}" if wanted != gpus_of(moved) else " for others of that type"
    if job.cancelled_s is not None:
        return ": cancelled by the user"
    told = {
        Stopped.EVICTED: ": evicted, other jobs get them",
        Stopped.DRAINED: ": their nodes are going away",
        Stopped.DOWN: ": the scheduler ends",
        Stopped.PAUSED: ": paused by the user",
        Stopped.REQUEUED: ": requeued by the user",
    }
    return told[job.stopped] if job.stopped is not None else ""


def gpus_of(slots: Iterable[Slot | None]) -> str:
    """Return the GPUs of slots in words, such as `1xa100, 2xt4`."""
    return ", ".join(f"{gpus}x{gpu_type}" for gpu_type, gpus in _counts(slots).items())


def _counts(slots: Iterable[Slot | None]) -> dict[str, int]:
    """Return the GPUs of slots by type; as `held` of an event, those that a job holds from then on."""
    counts: Counter[str] = Counter()
    for slot in slots:
        if slot is not None:
            counts[slot.gpu_type] += slot.gpus
    return dict(sorted(counts.items()))


def _held(slots: Iterable[Slot]) -> dict[str, Any]:
    """Return what an event tells of slots that a job holds from then on: by type, and each GPU with its share.

    `on`: node -> GPU -> the part of it.
    """
    on: dict[str, dict[str, float]] = {}
    slots = list(slots)
    for slot in slots:
        on.setdefault(slot.node_id, {}).update((str(device), slot.share) for device in slot.devices)
    return {"held": _counts(slots), "on": on}


def _reported(job: JobRecord, event: Reported, now: float) -> Reaction:
    report, target = event.report, job.spec.training.target
    named = target.metric if target is not None else ""
    metrics, left_out = bounded(job.metrics, report.metrics, named)
    changed = replace(
        job,
        measurements=profile_reuse.kept(event.measurements, job.measurements),
        report=flatten(report),
        reached=with_point(job.reached, now, report.progress.fraction),
        metrics=metrics,
        measured_at=places(metrics, job.measured_at, report.measured_at, named),
        curve=with_evaluation(job, report, target),
        left_out=event.left_out or left_out or job.left_out,
    )
    changed, idle = with_usage(changed, event.used, now)
    texts = [changed.left_out] if changed.left_out != job.left_out else []
    if report.progress.epoch >= EPOCHS_TO_REPORT > int(job.report.get("epoch", 0)):
        texts += [text] if (text := missing(target, metrics)) else []
    told = [_event(job, EventKind.METRICS, now, text) for text in texts]
    told += [Event(EventKind.TRIALS, now, job.id, of_row(row)) for row in report.trials]
    return Reaction(changed, (*told, *([_event(job, EventKind.IDLE, now, idle)] if idle else [])))


def flatten(report: Report) -> dict[str, Any]:
    """Return a report's figures by the names under which they are shown."""
    progress = report.progress
    noise = report.grad_var / report.grad_sqr if report.grad_var and report.grad_sqr else None
    return {
        "gpu_type": report.gpu_type,
        "replicas": report.replicas,
        "batch_size": report.batch_size,
        "local_bsz": report.local_bsz,
        "accumulation": report.accumulation,
        "lr": report.lr,
        "gain": report.gain,
        "noise_scale": noise,
        "epoch": progress.epoch,
        "epochs": progress.epochs,
        "fraction": progress.fraction,
        "steps": progress.steps,
        "samples": progress.samples,
        "progress_samples": progress.progress_samples,
    }


def _requeue(job: JobRecord, reason: str, now: float) -> JobRecord:
    """Queue a running job that has no slot left. Any other job stays as it is."""
    if job.phase is not Phase.RUNNING or job.held or job.target:
        return job
    evicted = job.stopped is Stopped.EVICTED
    state = advance(job.state, Phase.QUEUED, now, "other jobs have its GPUs" if evicted else reason)
    return replace(job, state=replace(state, evictions=state.evictions + evicted), group=())


def _reset(run: ProfileRun) -> ProfileRun:
    """Return a run whose worker is gone. It may start again if it had not ended."""
    return replace(run, slot=None, started_s=None, ended_s=None, asked=0)


def _event(job: JobRecord, kind: EventKind, now: float, text: str, **data: Any) -> Event:
    payload: Mapping[str, Any] = {"text": text, **data}
    return Event(kind, now, job.id, payload)


def claim(
    job: JobRecord,
    slots: tuple[Slot, ...],
    now: float,
    why: Stopped = Stopped.EVICTED,
    causes: Mapping[str, Any] | None = None,
) -> Reaction:
    """Return the record to write before `assign(slots)` is sent: with a new sequence number and the slots held.

    Args:
        why: why the job has to leave its GPUs, if it gets no slots.
        causes: what the event keeps of why it gets others.
    """
    sequence = job.sequence + 1
    left = set(job.held) - set(job.target)
    leaving = set(job.held) - set(slots)
    # The time to leave begins anew, unless the job already waits for new processes and goes on doing so.
    waits_on = bool(slots) and bool(left & leaving)
    since_s = (job.pending_since_s if waits_on else None) or now
    changed = replace(
        job,
        sequence=sequence,
        target=slots,
        held=tuple(sorted({*slots, *job.held})),  # of two slots in the same place the new one counts
        group=_as_in(slots, job.group),
        pending_commands=(*job.pending_commands, *(((sequence, now),) if slots else ()))[-MOST_PENDING:],
        last_grant=(
            *(one for one in job.last_grant if one[1] not in slots),
            *((sequence, slot) for slot in slots),
        ),
        pending_since_s=since_s if leaving else None,
        # A queued job stays evicted until it trains again. A running job that gets slots never was.
        stopped=why if not slots else job.stopped if job.phase is Phase.QUEUED else None,
    )
    gpus = sum(slot.gpus for slot in slots)
    leaves = {Stopped.EVICTED: " to other jobs", Stopped.DRAINED: ", whose nodes go away"}
    has = amount(gpus, slots[0].gpu_type, min(slot.share for slot in slots)) if slots else ""
    text = f"is to use {has}" if slots else f"is to leave its GPUs{leaves.get(why, '')}"
    if slots and _differ_beside_gpus(slots, job.target):
        cpus, memory_gib = (sum(getattr(slot, name) for slot in slots) for name in ("cpus", "memory_gib"))
        text = f"is to use {cpus:g} CPUs and {memory_gib:.4g} GiB of memory beside its GPUs"
    data = {"gpus": gpus, "gpu_type": slots[0].gpu_type if slots else None, **_held(changed.held)}
    data |= causes or {}
    return Reaction(changed, (_event(job, EventKind.PLACED, now, text, **data),))


def _differ_beside_gpus(slots: Sequence[Slot], before: Sequence[Slot]) -> bool:
    """Return whether slots are the same GPUs, held to the same parts, with other CPUs or memory."""
    was = {slot: slot.share for slot in before}
    return was == {slot: slot.share for slot in slots}


def force_out(job: JobRecord, now: float) -> Reaction:
    """Return the record to write before an executor is restarted because its job did not leave slots in time.

    The slots stay held until the restarted executor says that everything is released. The job's time to leave
    begins anew.
    """
    text = "did not leave its GPUs in time, its executor is restarted"
    late = (_event(job, EventKind.LATE, now, text),)
    return Reaction(replace(job, pending_since_s=now), late, commands=(RestartExecutor(),))


def restart_unnamed(job: JobRecord, now: float) -> Reaction:
    """Return the record to write before the executor of an earlier version is restarted.

    Ray chose the GPUs of its workers, so nobody knows which they are.
    """
    text = "its GPUs had no names, its executor is restarted"
    return Reaction(job, (_event(job, EventKind.LOST, now, text),), commands=(RestartExecutor(),))


def start_profile(job: JobRecord, gpu_type: str, slot: Slot, now: float) -> Reaction:
    """Return the record to write before `profile(slot)` is sent."""
    sequence = job.profile_sequence + 1
    profiles = tuple(
        replace(run, slot=slot, started_s=now, ended_s=None, sequence=sequence)
        if run.gpu_type == gpu_type
        else run
        for run in job.profiles
    )
    changed = replace(job, profile_sequence=sequence, profiles=profiles)
    return Reaction(
        changed, (_event(job, EventKind.PROFILING, now, f"is measured on {gpu_type}", gpu_type=gpu_type),)
    )


def give_up_profile(job: JobRecord, gpu_type: str, reason: str, now: float) -> Reaction:
    """Return the record to write before a late profile run is ended. Its slot stays held until it is released."""
    run = job.profile(gpu_type)
    profiles = tuple(
        replace(run, ok=False, reason=reason, ended_s=now) if run.gpu_type == gpu_type else run
        for run in job.profiles
    )
    told = _event(job, EventKind.PROFILED, now, reason, gpu_type=gpu_type, ok=False)
    ends = (EndProfile(run.slot, run.sequence),) if run is not None and run.slot is not None else ()
    return Reaction(replace(job, profiles=profiles), (told,), round=True, commands=ends)
