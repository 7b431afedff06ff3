"""What an executor's event makes of a job's record. Pure: `react(job, event, now)`.

Events may come twice and, around a restart of the service, late; each reaction is therefore the same
when repeated, and nothing moves a job that has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..core.events import EventKind
from ..core.job import Phase
from ..core.reports import Report
from ..core.slot import Slot
from ..executor.protocol.job_events import (
    ExecutorEvent,
    Failing,
    JobFailed,
    JobFinished,
    ProfileFinished,
    Released,
    Reported,
    Running,
    WorkerLost,
)
from ..executor.protocol.metric_limits import bounded, places
from ..executor.reconciling.failures import NO_OTHER_END, SAME_TWICE, fault_of, is_final, too_many
from . import profile_reuse
from .commands import Command, EndProfile, RestartExecutor
from .job_lifecycle import advance
from .record import JobRecord, ProfileRun, Stopped
from .status import with_point
from .store import Event
from .targets import ending, missing

MOST_CLAIMS = 8  # that are remembered of a job that is redirected again and again
PROFILE_TRIES = 2
PROFILE_LOSSES = 5  # a worker that is lost is not the job's fault, but something is where all are


@dataclass(frozen=True)
class Reaction:
    """The changed record, lines of the log, whether a round should follow at once, and commands to send."""

    job: JobRecord
    events: tuple[Event, ...] = ()
    round: bool = False
    commands: tuple[Command, ...] = ()


def react(job: JobRecord, event: ExecutorEvent, now: float) -> Reaction:
    """Apply one event. Raises: TypeError for what is no event."""
    if isinstance(event, Released):
        return _released(job, event, now)
    if not job.active:
        return Reaction(job)
    match event:
        case ProfileFinished():
            return _profile_finished(job, event, now)
        case Running():
            return _running(job, event, now)
        case Reported():
            return _reported(job, event, now)
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
    """The job has ended; what it holds stays counted until it is released. `why` it did not go on, for its log."""
    ended = replace(
        job,
        state=advance(job.state, phase, now, reason),
        target=(),
        held=job.occupied,
        group=(),
        profiles=tuple(_reset(run) for run in job.profiles),
        pending_since_s=now if job.occupied else None,
        **changes,
    )
    kind = EventKind.CANCEL if phase is Phase.CANCELLED else EventKind.FINISH
    text = f"{reason} ({why})" if why else reason
    return Reaction(ended, (_event(job, kind, now, text, phase=phase.value, metrics=ended.metrics),), round=True)


def _fail(job: JobRecord, summary: str, traceback: str, failures: int, now: float, why: str) -> Reaction:
    failed = replace(job, state=replace(job.state, failures=failures), traceback=traceback or job.traceback)
    return end(failed, Phase.FAILED, summary, now, why)


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
    """The executor and all its workers are gone: the job queues again and runs from its last checkpoint."""
    if not job.active:
        return Reaction(replace(job, held=(), pending_since_s=None))
    had = bool(job.occupied)
    leaving = job.stopped is not None and not job.target  # it was to go anyway, and is not to be recovered
    state = replace(job.state, recoveries=job.state.recoveries + (had and not leaving), reason=reason)
    lost = replace(
        job,
        state=state,
        target=(),
        held=(),
        group=(),
        claims=(),
        given=(),
        generation=0,
        pending_since_s=None,
        retrying=False,
        profiles=tuple(_reset(run) for run in job.profiles),
    )
    return Reaction(
        _requeue(lost, reason, now), (_event(job, EventKind.LOST, now, reason),) if had else (), round=True
    )


def lose_slots(job: JobRecord, alive: frozenset[str], now: float) -> Reaction:
    """Nodes are gone, and with them the job's slots there; the executor recovers with what is left."""
    gone = {slot.node_id for slot in job.occupied} - alive
    if not gone:
        return Reaction(job)
    keep = [tuple(s for s in slots if s.node_id not in gone) for slots in (job.target, job.held, job.group)]
    changed = replace(
        job,
        target=keep[0],
        held=keep[1],
        group=keep[2],
        profiles=tuple(
            _reset(run) if run.slot is not None and run.slot.node_id in gone else run for run in job.profiles
        ),
        pending_since_s=job.pending_since_s if set(keep[1]) - set(keep[0]) else None,
    )
    text = f"lost node {', '.join(sorted(node[:8] for node in gone))}"
    return Reaction(_requeue(changed, text, now), (_event(job, EventKind.LOST, now, text),), round=True)


def _profile_finished(job: JobRecord, event: ProfileFinished, now: float) -> Reaction:
    run = job.profile(event.gpu_type)
    if run is None or not run.active or event.sequence != run.sequence:
        return Reaction(job)
    # `Released` of the slot follows; until then it stays with the run.
    done = replace(run, ok=event.ok, reason=event.reason, tries=run.tries + 1, ended_s=now)
    if event.lost and run.losses < PROFILE_LOSSES:
        done = replace(done, ok=None, started_s=None, tries=run.tries, losses=run.losses + 1)
    elif not event.ok and done.tries < PROFILE_TRIES:
        # The machine may have been at fault rather than the script: once more.
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
    """The script's own error, which training would meet as well: the same one again ends the job.

    On one GPU type alone it may be the type's fault, as long as another type may do, or does.
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
    if 0 < event.generation <= job.generation:  # told before: its pause is counted
        event = replace(event, pause_s=None, recovered=False, retried=False)
    gpu_type = event.slots[0].gpu_type
    gpus = sum(slot.gpus for slot in event.slots)
    # A start after the script's own error is its failure, and no pause that anyone else has made.
    paused = event.pause_s is not None and not event.retried
    asked_s = dict(job.claims).get(event.sequence)  # it may answer an earlier command than the last
    waited_s = None if asked_s is None else max(now - asked_s, 0.0)
    started = waited_s is not None and not set(event.slots) <= set(job.group)
    # One that had stopped before it was given GPUs has paused for longer than it has waited for them.
    moved = paused and waited_s is not None and (event.pause_s or 0.0) <= waited_s and not event.recovered
    resized = paused and not event.recovered and job.phase is Phase.RUNNING and job.stopped is None
    state = replace(
        advance(job.state, Phase.RUNNING, now),
        restarts=job.state.restarts + paused,
        resizes=job.state.resizes + resized,
        recoveries=job.state.recoveries + event.recovered,
    )
    # An executor that was restarted may have had the last command after it said that it had nothing.
    target = job.target or (event.slots if event.sequence == job.sequence else ())
    held = tuple(sorted({*job.held, *event.slots}))
    pending_since_s = job.pending_since_s
    if set(held) - set(target) and (asked_s is not None or pending_since_s is None):
        pending_since_s = now  # until now it had to wait for its new processes; from now on it only has to leave
    changed = replace(
        job,
        state=state,
        group=event.slots,
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
        claims=tuple(claim for claim in job.claims if claim[0] > event.sequence),
        given=tuple(given for given in job.given if given[0] > event.sequence),
        pending_since_s=pending_since_s,
        starts=job.starts + started,
        starting_s=job.starting_s + (waited_s or 0.0 if started else 0.0),
        largest_gpus={**job.largest_gpus, gpu_type: max(job.largest_gpus.get(gpu_type, 0), gpus)},
    )
    nodes = len({slot.node_id for slot in event.slots})
    text = f"runs on {gpus}x{gpu_type} on {nodes} node{'s' * (nodes > 1)}{_after(job, event)}"
    data = {"gpu_type": gpu_type, "gpus": gpus, "nodes": nodes, "warm": event.warm, "pause_s": event.pause_s}
    return Reaction(changed, (_event(job, EventKind.RUNNING, now, text, recovered=event.recovered, **data),))


def _after(job: JobRecord, event: Running) -> str:
    """How long it had not trained, and why."""
    if event.pause_s is None:
        return ""
    if event.retried:
        return f", again {event.pause_s:.2f} s after its script failed"
    if job.phase is Phase.QUEUED and job.stopped is Stopped.EVICTED:
        return f", after it was evicted for {event.pause_s:.2f} s"
    why = ", recovered" if event.recovered else ""
    return f"{why}, {'warm' if event.warm else 'cold'}, pause {event.pause_s:.2f} s"


def _lost_s(job: JobRecord, event: Running, waited_s: float | None) -> float:
    """Seconds that a restart cost the whole group; `waited_s`: since its GPUs were asked for, where they were.

    A warm resize hardly interrupts training, but GPUs that joined were held while their processes started. A
    longer pause was time in the queue.
    """
    if event.pause_s is None:
        return 0.0
    if waited_s is None:
        return event.pause_s
    joined = len(set(event.slots) - set(job.group)) / len(event.slots)
    return max(min(event.pause_s, waited_s), joined * waited_s)


def _released(job: JobRecord, event: Released, now: float) -> Reaction:
    if event.everything:
        # An executor that has just been started says so too, before it knows of any command.
        return lose_everything(job, "its executor was restarted", now) if job.occupied else Reaction(job)
    # It says nothing about slots that the job was given again since.
    given = tuple(given for given in job.given if given[0] > event.sequence)
    gone = set(event.slots) - {slot for _, slot in given}
    held = tuple(slot for slot in job.held if slot not in gone)
    target = tuple(slot for slot in job.target if slot not in gone)
    changed = replace(
        job,
        # A run that is under way ends by `ProfileFinished`: this is of an earlier one in the same slot.
        profiles=tuple(_reset(run) if run.slot in gone and not run.active else run for run in job.profiles),
        held=held,
        target=target,
        given=given,
        group=tuple(slot for slot in job.group if slot in held),
        pending_since_s=job.pending_since_s if set(held) - set(target) else None,
    )
    if changed == job:
        return Reaction(job)
    changed = _requeue(changed, "waiting for GPUs", now)
    texts = _who_left(job, gone)
    kind = EventKind.EVICTED if changed.state.evictions > job.state.evictions else EventKind.RELEASED
    return Reaction(changed, (_event(job, kind, now, "; ".join(texts)),) if texts else ())


def _who_left(job: JobRecord, gone: set[Slot]) -> list[str]:
    """What of the job left which GPUs and why, a clause each."""
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
    told = {
        Stopped.EVICTED: ": evicted, other jobs get them",
        Stopped.DRAINED: ": their nodes are going away",
        Stopped.DOWN: ": the scheduler ends",
    }
    return told[job.stopped] if job.stopped is not None else ""


def gpus_of(slots: Iterable[Slot | None]) -> str:
    """`2xa100`, or of several types `1xa100, 2xt4`."""
    counts: Counter[str] = Counter()
    for slot in slots:
        if slot is not None:
            counts[slot.gpu_type] += slot.gpus
    return ", ".join(f"{gpus}x{gpu_type}" for gpu_type, gpus in sorted(counts.items()))


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
        left_out=event.left_out or left_out or job.left_out,
    )
    texts = [changed.left_out] if changed.left_out != job.left_out else []
    if report.progress.epoch and not job.report.get("epoch"):
        texts += [text] if (text := missing(target, metrics)) else []
    return Reaction(changed, tuple(_event(job, EventKind.METRICS, now, text) for text in texts))


def flatten(report: Report) -> dict[str, Any]:
    """A report's figures by the names they are shown under."""
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
    """A running job without any slot waits in the queue."""
    if job.phase is not Phase.RUNNING or job.held or job.target:
        return job
    evicted = job.stopped is Stopped.EVICTED
    state = advance(job.state, Phase.QUEUED, now, "evicted: other jobs have its GPUs" if evicted else reason)
    return replace(job, state=replace(state, evictions=state.evictions + evicted), group=())


def _reset(run: ProfileRun) -> ProfileRun:
    """Nothing of it is left anywhere: one that had not ended may start again."""
    return replace(run, slot=None, started_s=None, ended_s=None)


def _event(job: JobRecord, kind: EventKind, now: float, text: str, **data: Any) -> Event:
    payload: Mapping[str, Any] = {"text": text, **data}
    return Event(kind, now, job.id, payload)


def claim(job: JobRecord, slots: tuple[Slot, ...], now: float, why: Stopped = Stopped.EVICTED) -> Reaction:
    """The record before `assign(slots)` is sent: a new sequence number, and the slots counted as held.

    `why`: it is to leave its GPUs, where it gets none.
    """
    sequence = job.sequence + 1
    left = set(job.held) - set(job.target)
    leaving = set(job.held) - set(slots)
    # One that was to wait for new processes first, and now just has to leave, has as long for that as any.
    waits_on = bool(slots) and bool(left & leaving)
    since_s = (job.pending_since_s if waits_on else None) or now
    changed = replace(
        job,
        sequence=sequence,
        target=slots,
        held=tuple(sorted({*slots, *job.held})),  # of the same place what is new counts
        claims=(*job.claims, (sequence, now))[-MOST_CLAIMS:] if slots else job.claims,
        given=(*(given for given in job.given if given[1] not in slots), *((sequence, slot) for slot in slots)),
        pending_since_s=since_s if leaving else None,
        # One that has left is evicted until it trains again; one that stays after all never was.
        stopped=why if not slots else job.stopped if job.phase is Phase.QUEUED else None,
    )
    gpus = sum(slot.gpus for slot in slots)
    leaves = {Stopped.EVICTED: " to other jobs", Stopped.DRAINED: ", whose nodes go away", Stopped.DOWN: ""}
    text = f"is to use {gpus}x{slots[0].gpu_type}" if slots else f"is to leave its GPUs{leaves[why]}"
    return Reaction(changed, (_event(job, EventKind.PLACED, now, text, gpus=gpus),))


def force_out(job: JobRecord, now: float) -> Reaction:
    """The record before its executor is restarted for not leaving its slots.

    They stay held until the executor's next life says that everything is released, and for as long again.
    """
    text = "did not leave its GPUs in time, its executor is restarted"
    late = (_event(job, EventKind.LATE, now, text),)
    return Reaction(replace(job, pending_since_s=now), late, commands=(RestartExecutor(),))


def restart_unnamed(job: JobRecord, now: float) -> Reaction:
    """The record before the executor of an earlier version is restarted: Ray chose the GPUs of its workers."""
    text = "its GPUs had no names, its executor is restarted"
    return Reaction(job, (_event(job, EventKind.LOST, now, text),), commands=(RestartExecutor(),))


def start_profile(job: JobRecord, gpu_type: str, slot: Slot, now: float) -> Reaction:
    """The record before `profile(slot)` is sent."""
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
    """The record before a profile run that takes too long is ended; its slot is held until it is released."""
    run = job.profile(gpu_type)
    profiles = tuple(
        replace(run, ok=False, reason=reason, ended_s=now) if run.gpu_type == gpu_type else run
        for run in job.profiles
    )
    told = _event(job, EventKind.PROFILED, now, reason, gpu_type=gpu_type, ok=False)
    ends = (EndProfile(run.slot, run.sequence),) if run is not None and run.slot is not None else ()
    return Reaction(replace(job, profiles=profiles), (told,), round=True, commands=ends)
