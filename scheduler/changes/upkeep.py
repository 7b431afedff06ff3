"""Changes jobs when time passes or nodes come and go, without any event of their executors. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from ...core.doors import Door
from ...core.job import Phase
from ...core.settings import Settings
from ..jobs.awaited_jobs import Find, awaited
from ..jobs.record import JobRecord
from ..nodes.node_view import NodesSnapshot
from . import deadlines, drain, time_limit
from .admission import admit
from .awaited import look_after
from .commands import EndAll
from .deadlines import keep_deadline
from .drain import depart, why_lost
from .forks import waits_for_copy
from .profile_reuse import measured_types
from .profiling import finish_profiling, give_up_late, measure_on_new_types, measure_on_present_types, skip_known
from .reactions import Reaction, end, lose_slots, why_it_ends
from .rest import leave_node, rest
from .retries import waits_to_retry
from .time_limit import keep_time_limit

SPARE_S = 10.0  # beyond the grace of a program that is cancelled
Step = Callable[[JobRecord], Reaction]
WithKnown = Callable[[JobRecord], JobRecord]


def steps(
    job: JobRecord,
    nodes: NodesSnapshot,
    settings: Settings,
    with_known: WithKnown,
    now: float,
    find: Find = lambda job_id: None,
    serves_deadlines: bool = True,
) -> Iterator[Step]:
    """Yield the steps for a job in its phase, in order. Each step takes the record that the one before left.

    Args:
        find: returns a job, also one that has ended; None: there is none.
        serves_deadlines: whether the policy looks at them.
    """
    yield lambda job: lose_slots(job, nodes.alive, now, lambda gone: why_lost(job, gone, nodes))
    if job.cancelled_s is not None:
        yield lambda job: finish_cancelled(job, settings, now)
        return
    if job.active:
        yield lambda job: depart(job, nodes, settings, now)
        yield lambda job: leave_node(job, nodes, now)
        yield lambda job: rest(job, nodes, settings, now)
        yield lambda job: keep_time_limit(job, now)
        yield lambda job: keep_deadline(job, now, serves_deadlines)
    if not job.active:
        yield lambda job: retire(job, settings, now)
    elif job.phase is Phase.SUBMITTED:
        yield lambda job: begin_again(job, settings, now)
        yield lambda job: look_after(job, find, now)
        yield (
            lambda job: (
                Reaction(job)
                if job.phase is not Phase.SUBMITTED or _may_not_start(job, find, now)
                else admit(job, nodes.cluster, with_known, now, nodes.asleep)
            )
        )
    elif job.phase is Phase.PROFILING:
        yield lambda job: measure_on_present_types(job, nodes.cluster, now, nodes.asleep)
        yield from [lambda job: give_up_late(job, settings, now)] * len(job.measured_in)
        yield lambda job: skip_known(job, with_known, now)
        yield lambda job: finish_profiling(job, settings, now)
    else:
        yield lambda job: measure_on_new_types(job, nodes.cluster, now)
        yield from [lambda job: give_up_late(job, settings, now)] * len(job.measured_in)
        yield lambda job: skip_known(job, with_known, now)


def _may_not_start(job: JobRecord, find: Find, now: float) -> bool:
    """Return whether a submitted job waits for something before it may be measured or queued."""
    return job.renews or waits_for_copy(job) or waits_to_retry(job, now) or bool(awaited(job, find))


# The fields that a report of training changes. Neither upkeep nor the launcher looks at them.
_REPORTED = frozenset(
    {
        "measurements",
        "report",
        "reached",
        "metrics",
        "measured_at",
        "curve",
        "left_out",
        "usage",
        "usage_told",
        "told_idle",
        "refusals",
        "saved_steps",
        "saving_s",
        "kept",
    }
)
_LOOKED_AT = tuple(one.name for one in fields(JobRecord) if one.name not in _REPORTED)


def is_news(before: JobRecord, after: JobRecord) -> bool:
    """Return whether a change of a record may give upkeep or the launcher something to do."""
    if measured_types(before.measurements) != measured_types(after.measurements):
        return True
    if any(run.ok is None for run in after.profiles):
        return True  # new measurements may make runs needless
    return any(
        (one := getattr(before, name)) is not (other := getattr(after, name)) and one != other
        for name in _LOOKED_AT
    )


def finish_cancelled(job: JobRecord, settings: Settings, now: float) -> Reaction:
    """End a cancelled job that has saved and left its GPUs, or whose time for that is over."""
    if not job.active or job.cancelled_s is None:
        return Reaction(job)
    if not job.held:
        saved = "" if job.saved_step is None else f"; it saved at step {job.saved_step}"
        return end(job, Phase.CANCELLED, f"{why_it_ends(job)}{saved}", now)
    if now < job.cancelled_s + _save_s(job, settings):
        return Reaction(job)
    late = f"{why_it_ends(job)}; it had not left its GPUs after {_save_s(job, settings):.0f} s"
    return replace(end(job, Phase.CANCELLED, late, now), commands=(EndAll(),))


def _save_s(job: JobRecord, settings: Settings) -> float:
    """Return how long a cancelled job may take to save, or its program to stop."""
    return max(settings.cancel_save_s, 0.0 if job.spec.door is Door.NATIVE else job.spec.grace_s + SPARE_S)


def retire(job: JobRecord, settings: Settings, now: float) -> Reaction:
    """Retire an ended job once its slots are released, or their release is overdue."""
    if job.retired or not _has_left(job, settings, now):
        return Reaction(job)
    return Reaction(replace(job, held=(), pending_since_s=None, retired=True), round=True)


def begin_again(job: JobRecord, settings: Settings, now: float) -> Reaction:
    """Begin a job's new life where its last one was about to be retired."""
    if not job.renews or not _has_left(job, settings, now):
        return Reaction(job)
    return Reaction(job.begun_again(), round=True)


def _has_left(job: JobRecord, settings: Settings, now: float) -> bool:
    """Return whether the slots of an ended life are released, or their release is overdue."""
    waited = job.pending_since_s is None or now - job.pending_since_s > settings.release_timeout_s
    return waited or not job.held


def due_s(job: JobRecord, settings: Settings) -> float:
    """Return the wall time from which on time alone may change the job; infinity if it never does."""
    due = [math.inf]
    for run in job.profiles:
        if run.active and run.started_s is not None:
            due.append(run.started_s + settings.profile_timeout_s)
        elif run.slot is not None and run.ended_s is not None:
            due.append(run.ended_s + settings.release_timeout_s)
    if job.phase is Phase.PROFILING:
        due.append(job.state.submitted_s + settings.profile_patience_s)
    if job.notice is not None and job.active:
        due.append(drain.due_s(job))
    due += [time_limit.due_s(job), deadlines.due_s(job)]
    if job.phase is Phase.SUBMITTED and job.not_before_s is not None:
        due.append(job.not_before_s)
    if job.idle_since_s is not None:
        due.append(job.idle_since_s + settings.executor_idle_s)
    if job.cancelled_s is not None:
        due.append(job.cancelled_s + _save_s(job, settings))
    if not job.retired and job.pending_since_s is not None:
        due.append(job.pending_since_s + settings.release_timeout_s)
    return min(due)
