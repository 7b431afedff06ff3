"""What a user asks of a job beside submit: cancel, pause, resume, requeue. Pure.

Each verb returns the record to write and the commands that follow. It returns the same record where there is
nothing to do. Raises: JobStateError where the verb does not fit, with one sentence that says what would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...core.doors import Door
from ...core.errors import JobStateError
from ...core.events import EventKind
from ...core.job import Phase
from ..jobs.lifecycle import advance
from ..jobs.record import ChangedFile, JobRecord, ProfileRun, Stopped
from ..jobs.trained_time import check_limit
from ..store.events import Event
from .commands import Command, EndAll, EndProfile, LeaveGpus
from .reactions import Reaction, claim, end, gpus_of
from .status import status_of

Verb = Callable[[JobRecord, float], Reaction]


def pause(job: JobRecord, now: float) -> Reaction:
    """Hold a job: it saves and leaves its GPUs, and no round gives it any until it is resumed."""
    if not job.active:
        raise JobStateError(f"{job.id} has {_ended(job)}, so there is nothing to pause")
    _check_takes_part(job, "paused")
    if job.cancelled_s is not None:
        raise JobStateError(
            f"{job.id} is being cancelled, so it cannot be paused; `coadapt resume {job.id}` lets it go on"
        )
    if job.paused:
        return Reaction(job)
    _check_may_start_again(job, "paused")
    ends = tuple(EndProfile(run.slot, run.sequence) for run in job.profiles if run.active and run.slot)
    held = replace(job, paused=True, profiles=tuple(_put_off(run, now) for run in job.profiles))
    leaving, commands = _leave(held, Stopped.PAUSED, now)
    text = f"paused by the user{_what_it_leaves(job)}"
    return Reaction(leaving, (_event(job, EventKind.PAUSE, now, text),), round=True, commands=(*ends, *commands))


def resume(job: JobRecord, now: float) -> Reaction:
    """Let a paused job take part again, or a failed or cancelled one go on from its last checkpoint."""
    _check_takes_part(job, "resumed")
    if job.cancelled_s is not None:
        return _after_cancel(job, EventKind.RESUME, "resumed by the user", now)
    if job.paused:
        text = "resumed by the user"
        return Reaction(replace(job, paused=False), (_event(job, EventKind.RESUME, now, text),), round=True)
    if job.active:
        raise JobStateError(f"{job.id} is not paused: it is {status_of(job)}")
    if job.phase is Phase.SUCCEEDED:
        raise JobStateError(
            f"{job.id} has succeeded, so there is nothing to resume; "
            f"`coadapt fork {job.id}` starts a new job from its last checkpoint"
        )
    return _again(job, EventKind.RESUME, "resumed by the user", now)


def resume_changed(job: JobRecord, now: float, file: ChangedFile) -> Reaction:
    """Let a paused, failed or cancelled job go on from its last checkpoint with a changed job file.

    Its name stays. A job that still leaves its GPUs saves there first. The file counts from its next life on, in
    which a script that prepares another model is refused when it starts.
    """
    if job.active and not (job.paused or job.renews or job.cancelled_s is not None):
        raise JobStateError(
            f"{job.id} is {status_of(job)}; only a job that is paused or has ended goes on with a changed file, "
            f"and `coadapt pause {job.id}` holds it"
        )
    spec = file.spec
    check_limit(job, spec.time_limit, now)
    if spec.door is not job.spec.door:
        raise JobStateError(
            f"{job.id} is a {job.spec.door} job, and the file is of a {spec.door} one; submit it anew"
        )
    if spec.training.checkpoint.url != job.spec.training.checkpoint.url:
        raise JobStateError(
            f"training.checkpoint.url: {spec.training.checkpoint.url} is not where the checkpoints of {job.id} "
            "are; leave it as it was"
        )
    named = replace(file, spec=spec.model_copy(update={"name": job.spec.name}))
    text = "resumed by the user with a changed job file"
    if job.renews:
        return Reaction(replace(job, changed=named), (_event(job, EventKind.RESUME, now, text),), round=True)
    if job.phase is Phase.SUCCEEDED:
        return resume(job, now)  # which says what fits instead
    leaves = job.paused or job.cancelled_s is not None
    ended = end(job, Phase.CANCELLED, "", now).job if leaves else job
    return _again(replace(ended, changed=named), EventKind.RESUME, text, now, saves=leaves)


def requeue(job: JobRecord, now: float) -> Reaction:
    """Have a job give up its GPUs and wait again, or have one that has ended run again."""
    if not job.active:
        return _again(job, EventKind.REQUEUE, "requeued by the user", now)
    if job.quarantine:
        text = "requeued by the user: it takes part in rounds again"
        event = _event(job, EventKind.REQUEUE, now, text)
        return Reaction(replace(job, quarantine=""), (event,), round=True)
    if job.paused:
        raise JobStateError(f"{job.id} is paused; `coadapt resume {job.id}` lets it take part again")
    if job.cancelled_s is not None:
        return _after_cancel(job, EventKind.REQUEUE, "requeued by the user", now)
    _check_may_start_again(job, "requeued")
    leaving, commands = _leave(job, Stopped.REQUEUED, now)
    if leaving is job:
        return Reaction(job)
    text = f"requeued by the user{_what_it_leaves(job)}"
    return Reaction(leaving, (_event(job, EventKind.REQUEUE, now, text),), round=True, commands=commands)


def cancel(job: JobRecord, now: float, *, save: bool = True) -> Reaction:
    """End a job. One that trains saves first and leaves its GPUs; a program gets its stop signal and its grace.

    Args:
        save: whether it may do so. A job that saves already is ended at once without.
    """
    if not job.active or (save and job.cancelled_s is not None):
        return Reaction(job)
    if not save or not job.group or not job.target or job.renews or job.quarantine:
        hurried = job.cancelled_s is not None
        job = replace(job, ending="")
        reason = "cancelled by the user, without waiting for it to save" if hurried else "cancelled by the user"
        ended = end(job, Phase.CANCELLED, reason, now)
        return replace(ended, commands=(EndAll(),))
    return leave_and_end(replace(job, ending=""), EventKind.CANCEL, "cancelled by the user", now)


def leave_and_end(job: JobRecord, kind: EventKind, why: str, now: float) -> Reaction:
    """Have a job that trains save, leave its GPUs and end.

    Args:
        kind, why: as its log has it.
    """
    ends = tuple(EndProfile(run.slot, run.sequence) for run in job.profiles if run.active and run.slot)
    held = replace(
        job, cancelled_s=now, saved_step=None, profiles=tuple(_put_off(run, now) for run in job.profiles)
    )
    leaving, commands = _leave(held, Stopped.REQUEUED, now)
    how = "it saves and then ends" if job.spec.door is Door.NATIVE else "its program is told to stop, then it ends"
    event = _event(job, kind, now, f"{why}: {how}")
    return Reaction(leaving, (event,), round=True, commands=(*ends, *commands))


VERBS: dict[str, Verb] = {verb.__name__: verb for verb in (pause, resume, requeue)}
BEGIN_AGAIN: tuple[Verb, ...] = (resume, requeue)  # also jobs that have ended


def _check_takes_part(job: JobRecord, done: str) -> None:
    """Raise JobStateError for a job in quarantine."""
    if job.quarantine:
        raise JobStateError(
            f"{job.id} is in quarantine ({job.quarantine}), so it cannot be {done}; "
            f"`coadapt requeue {job.id}` lets it take part again"
        )


def _check_may_start_again(job: JobRecord, done: str) -> None:
    """Raise JobStateError for a program that has begun and may not be stopped and started again."""
    if job.occupied and job.spec.door is Door.PLAIN and not job.spec.restartable:
        raise JobStateError(
            f"{job.id} runs a program that may not be started again (restartable: false), so it cannot be {done}; "
            f"`coadapt cancel {job.id}` ends it"
        )


def _leave(job: JobRecord, why: Stopped, now: float) -> tuple[JobRecord, tuple[Command, ...]]:
    """Return the job as told to leave all its GPUs; the same one where it has none."""
    if not job.target:
        return job, ()
    return claim(job, (), now, why).job, (LeaveGpus(),)


def _put_off(run: ProfileRun, now: float) -> ProfileRun:
    """Return a run that is to start again later. It keeps its slot until its worker has left."""
    return replace(run, started_s=None, ended_s=now) if run.active else run


def _again(job: JobRecord, kind: EventKind, text: str, now: float, *, saves: bool = False) -> Reaction:
    """Return an ended job as one that is to be admitted anew. Its errors count from 0 again.

    Where its last executor is still there, the new life begins when that one has left all GPUs.

    Args:
        saves: whether its last executor was told to save and leave, which it may not know yet.
    """
    check_limit(job, (job.changed or job).spec.time_limit, now)
    changed = replace(begin_anew(job, now, saves=saves), retries=0, not_before_s=None)
    native = job.spec.door is Door.NATIVE
    how = "it goes on from its last checkpoint, or from the start without one" if native else "it starts again"
    return Reaction(changed, (_event(job, kind, now, f"{text}: {how}"),), round=True)


def begin_anew(job: JobRecord, now: float, *, saves: bool = False) -> JobRecord:
    """Return an ended job as one that is to be admitted anew. `saves`: as for `_again`."""
    reason = "" if job.retired else "waiting until its last processes have left their GPUs"
    changed = replace(
        job,
        state=replace(advance(job.state, Phase.SUBMITTED, now, reason), failures=0),
        renews=not job.retired,
        profiles=(),
        pending_commands=(),
        last_grant=(),
        generation=0,
        reached=(),
        stopped=job.stopped if saves else None,
        retrying=False,
        faults=0,
        ended_early="",
    )
    return changed.begun_again() if job.retired else changed


def _after_cancel(job: JobRecord, kind: EventKind, text: str, now: float) -> Reaction:
    """Let a job that saves as it is cancelled begin again when it has left its GPUs."""
    return _again(end(job, Phase.CANCELLED, "", now).job, kind, text, now, saves=True)


def _what_it_leaves(job: JobRecord) -> str:
    slots = (*job.target, *(run.slot for run in job.profiles if run.active))
    return f": it leaves {gpus_of(slots)}" if any(slots) else ""


def _ended(job: JobRecord) -> str:
    return "been cancelled" if job.phase is Phase.CANCELLED else str(job.phase)


def _event(job: JobRecord, kind: EventKind, now: float, text: str) -> Event:
    return Event(kind, now, job.id, {"text": text})
