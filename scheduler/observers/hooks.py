"""Callbacks of a cycle: they are told of changes, of rounds, of jobs that are over and of how long phases took.

A hook never decides. In production a hook that raises is logged and does no harm; tests let it raise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...core.decisions import Placed, Waiting, WaitReason
from ...core.events import EventKind
from ...core.slot import Slot
from ...executor.protocol.job_events import ExecutorEvent, Reported, Running
from ...policies.contract.round import Plan, Round
from ..jobs.limits import HeldOut
from ..jobs.record import JobRecord
from ..store.events import Event
from ..store.intervals import UsageInterval
from ..store.store import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Change:
    """A job's record before and after one transaction. `cause` is the executor's event that led to it, if any."""

    before: JobRecord
    after: JobRecord
    now: float
    cause: ExecutorEvent | None = None


@dataclass(frozen=True)
class RoundDone:
    """A round that was planned. `wanted`: its slots by view id. `seconds`: how long planning took.

    held_out: jobs that limits kept out of it, by id.
    """

    number: int
    round: Round
    plan: Plan
    wanted: dict[str, tuple[Slot, ...]]
    seconds: float
    held_out: Mapping[str, HeldOut] = field(default_factory=dict)

    @cached_property
    def _took_part(self) -> frozenset[str]:
        return frozenset(self.round.columns.ids.tolist())

    @cached_property
    def _reasons(self) -> dict[str, WaitReason | None]:
        return {}  # of jobs that were asked about: each one costs some time, and thousands may wait

    def wait_reason(self, job_id: str) -> WaitReason | None:
        """Return why a job got nothing; None: it got something, or took no part. It is kept once worked out."""
        if (held_out := self.held_out.get(job_id)) is not None:
            return held_out.reason
        if job_id in self.plan.placements or job_id not in self._took_part:
            return None
        if job_id not in self._reasons:
            self._reasons[job_id] = _wait_reason(self.plan, job_id)
        return self._reasons[job_id]


def _wait_reason(plan: Plan, job_id: str) -> WaitReason | None:
    try:
        decision = plan.decision(job_id)
    except Exception:  # a fault of the policy, which `explain` shows, does not keep all jobs from being listed
        return WaitReason.NOT_SAID
    if isinstance(decision, Placed):
        return None
    # No cluster has a configuration for a job that is refused.
    return decision.reason if isinstance(decision, Waiting) else WaitReason.NO_CONFIGURATION


class CycleHook:
    """Callbacks of a cycle; a subclass overrides those it needs."""

    def changed(self, change: Change) -> None:
        """Take note of a change that is already in the store."""

    def planned(self, done: RoundDone) -> None:
        """Take note of a round, before its actions are sent."""

    def unplanned(self, why: str) -> None:
        """Take note of why a round, or a part of it, has no plan."""

    def retired(self, job: JobRecord) -> None:
        """Take note of a job that has ended and holds nothing any more."""

    def stepped(self, timings: Mapping[str, float]) -> None:
        """Take note of the seconds that each phase of a cycle took. Phases that did not run are absent."""


class HookError(RuntimeError):
    """A hook has raised. Nothing in a cycle catches it, so that a test sees it wherever it comes from."""


class Hooks:
    """Calls every hook in turn.

    Args:
        strict: whether a hook's error is raised as `HookError`, as in tests, or only logged.
    """

    def __init__(self, hooks: Sequence[CycleHook], *, strict: bool) -> None:
        self._hooks = tuple(hooks)
        self._strict = strict

    def changed(self, change: Change) -> None:
        """Tell every hook."""
        self._each(lambda hook: hook.changed(change))

    def planned(self, done: RoundDone) -> None:
        """Tell every hook."""
        self._each(lambda hook: hook.planned(done))

    def unplanned(self, why: str) -> None:
        """Tell every hook."""
        self._each(lambda hook: hook.unplanned(why))

    def retired(self, job: JobRecord) -> None:
        """Tell every hook."""
        self._each(lambda hook: hook.retired(job))

    def stepped(self, timings: Mapping[str, float]) -> None:
        """Tell every hook."""
        self._each(lambda hook: hook.stepped(timings))

    def _each(self, tell: Callable[[CycleHook], None]) -> None:
        for hook in self._hooks:
            try:
                tell(hook)
            except Exception as error:
                if self._strict:
                    raise HookError(f"{type(hook).__name__}: {error}") from error
                log.exception("hook %s", type(hook).__name__)


class IntervalHook(CycleHook):
    """Writes to the store who held which GPUs, and when."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def changed(self, change: Change) -> None:
        """Begin and end the intervals of training and of profile runs."""
        before, after, now = change.before, change.after, change.now
        if (before.group and not after.group) or (after.retired and not before.retired):
            self._store.release(after.id, now)
        if before.profiles is not after.profiles:
            self._note_profiles(before, after, now)
        reshared = [slot.share for slot in before.group] != [slot.share for slot in after.group]
        if (isinstance(change.cause, Running | Reported) or reshared) and after.group and after.active:
            self._store.hold(_interval(after, now))

    def _note_profiles(self, before: JobRecord, after: JobRecord, now: float) -> None:
        for run in before.profiles:
            known = after.profile(run.gpu_type)
            if run.active and not (known is not None and known.active):
                self._store.release(after.id, now, "profiling", run.gpu_type)
        for run in after.profiles:
            known = before.profile(run.gpu_type)
            if run.active and run.slot is not None and not (known is not None and known.active):
                self._store.hold_profile(UsageInterval(after.id, now, None, run.gpu_type, run.slot.gpus, 1))


def _interval(job: JobRecord, now: float) -> UsageInterval:
    report = job.report if job.report.get("replicas") == len(job.group) else {}
    return UsageInterval(
        job.id,
        now,
        None,
        job.group[0].gpu_type,
        sum(slot.gpus for slot in job.group),
        len({slot.node_id for slot in job.group}),
        report.get("batch_size"),
        report.get("lr"),
        share=min(slot.share for slot in job.group),
    )


class PlanLogHook(CycleHook):
    """Logs every plan that differs from the one before."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: dict[str, tuple[Slot, ...]] = {}

    def planned(self, done: RoundDone) -> None:
        """Write the plan as an event of the cluster."""
        if done.wanted != self._last:
            self._store.log(Event(EventKind.PLAN, done.round.now, None, _plan_data(done, self._last)))
            self._last = dict(done.wanted)


def _plan_data(done: RoundDone, before: Mapping[str, tuple[Slot, ...]]) -> dict[str, Any]:
    """Return what has changed since the plan before. A plan of thousands of jobs is long and changes little."""
    return {
        "round": done.number,
        "seconds": done.seconds,
        "jobs": len(done.wanted),
        "placements": {
            view_id: {"gpu_type": p.gpu_type, "nodes": {share.node_id: share.gpus for share in p.shares}}
            for view_id, p in done.plan.placements.items()
            if view_id in done.wanted and done.wanted[view_id] != before.get(view_id)
        },
        "without": [view_id for view_id in before if view_id not in done.wanted],
        "notes": [note.text for note in done.plan.notes],
    }
