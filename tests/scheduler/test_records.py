"""Records are on disk before anyone is told, and a cycle looks at what changed or whose time has come."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.events import EventKind
from coadapt.core.job import JobSpec, JobState, Phase
from coadapt.core.settings import Settings
from coadapt.scheduler.changes.reactions import Reaction, claim, end, force_out
from coadapt.scheduler.jobs.lifecycle import IllegalTransition
from coadapt.scheduler.jobs.record import JobRecord, ProfileRun
from coadapt.scheduler.observers.hooks import Change, CycleHook, HookError, Hooks
from coadapt.scheduler.records import Records
from coadapt.scheduler.store.events import Event
from coadapt.scheduler.store.intervals import UsageInterval
from coadapt.scheduler.store.store import Store

from tests.support.cycles import StubExecutors
from tests.support.records import A

SETTINGS = Settings(release_timeout_s=120.0)


class Told(CycleHook):
    """Notes which phase is in the store when it is told of a change, and who retired."""

    def __init__(self, store: Store) -> None:
        self.store, self.stored, self.retirees = store, list[Phase](), list[str]()

    def changed(self, change: Change) -> None:
        assert self.store.get(change.after.id) == change.after
        self.stored.append(change.after.phase)

    def retired(self, job: JobRecord) -> None:
        self.retirees.append(job.id)


class Desk:
    """Records over a store on disk with one queued job, and everything that is told of it."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "jobs.sqlite")
        job, _ = self.store.submit(JobSpec(name="j", script="t.py"), 0.0, idempotency_key="j")
        self.store.save(replace(job, state=JobState(Phase.QUEUED)), now=0.0)
        self.id, self.executors, self.hook = job.id, StubExecutors(), Told(self.store)
        self.records = Records(self.store, self.executors, Hooks([self.hook], strict=True), SETTINGS)

    @property
    def job(self) -> JobRecord:
        return self.store.get(self.id)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_every_job_that_is_not_retired_is_looked_at_first(desk: Desk) -> None:
    assert desk.records.changed == {desk.id}


def test_a_change_is_stored_before_hooks_and_executors_are_told(desk: Desk) -> None:
    desk.records.apply(claim(desk.job, (A,), 1.0), 1.0)
    late = desk.records.apply(force_out(claim(desk.job, (), 2.0).job, 200.0), 200.0)
    assert (desk.job, desk.hook.stored) == (late, [Phase.QUEUED, Phase.QUEUED])
    assert desk.executors.sent == ["restart j"]


def test_a_job_is_to_be_measured_while_one_of_its_profile_runs_may_start(desk: Desk) -> None:
    found = []
    for run in (ProfileRun("t4"), ProfileRun("t4", A, 1.0), ProfileRun("t4", ok=True)):
        desk.records.apply(Reaction(replace(desk.job, profiles=(run,))), 1.0)
        found.append(desk.records.to_measure == {desk.id})
    assert found == [True, False, False]
    again = Records(desk.store, desk.executors, Hooks([], strict=True), SETTINGS)
    assert again.to_measure == set()


def test_what_is_only_told_in_the_log_asks_nobody_to_look(desk: Desk) -> None:
    desk.records.changed.clear()
    line = Event(EventKind.LOST, 1.0, desk.id, {"text": "a worker was lost"})
    desk.records.apply(Reaction(desk.job, (line,)), 1.0)
    assert [event.kind for event in desk.store.events(desk.id)][-1] is EventKind.LOST
    assert (desk.records.changed, desk.hook.stored) == (set(), [])


def test_a_job_is_due_from_when_time_may_change_it_until_it_has_changed(desk: Desk) -> None:
    desk.records.apply(claim(desk.job, (A,), 1.0), 1.0)
    desk.records.apply(claim(desk.job, (), 10.0), 10.0)
    assert [desk.records.due(now) for now in (129.9, 130.0)] == [set(), {desk.id}]
    desk.records.apply(Reaction(replace(desk.job, held=(), pending_since_s=None)), 131.0)
    assert [desk.records.due(now) for now in (160.9, 161.0)] == [set(), {desk.id}], "its executor is to be retired"
    desk.records.apply(Reaction(replace(desk.job, idle_since_s=None)), 162.0)
    assert desk.records.due(1e9) == set()


def test_a_round_that_one_reaction_asks_for_is_not_taken_back_by_the_next(desk: Desk) -> None:
    desk.records.apply(Reaction(replace(desk.job, pauses=1), round=True), 1.0)
    desk.records.apply(Reaction(replace(desk.job, pauses=2)), 2.0)
    assert desk.records.round_asked


def test_a_job_that_retires_loses_its_executor_once(desk: Desk) -> None:
    desk.records.apply(end(desk.job, Phase.CANCELLED, "cancelled by the user", 1.0), 1.0)
    retired = Reaction(replace(desk.job, retired=True))
    for _ in range(2):
        desk.records.apply(retired, 2.0)
    assert (desk.executors.sent, desk.hook.retirees) == (["retire j"], [desk.id])


def test_a_phase_that_cannot_follow_is_refused_and_nothing_is_told(desk: Desk) -> None:
    desk.records.apply(end(desk.job, Phase.CANCELLED, "cancelled by the user", 1.0), 1.0)
    ended = desk.job
    with pytest.raises(IllegalTransition, match="running cannot follow cancelled"):
        desk.records.apply(Reaction(replace(ended, state=replace(ended.state, phase=Phase.RUNNING))), 2.0)
    assert (desk.job, desk.hook.stored) == (ended, [Phase.CANCELLED])


def cancel_and_retire(desk: Desk) -> None:
    desk.records.apply(end(desk.job, Phase.CANCELLED, "cancelled by the user", 1.0), 1.0)
    desk.records.apply(Reaction(replace(desk.job, retired=True)), 2.0)


def together(desk: Desk, *changes: Callable[[Desk], None]) -> None:
    with desk.records.together():
        for change in changes:
            change(desk)


def fail(desk: Desk) -> None:
    raise ArithmeticError


def test_changes_made_together_are_on_disk_before_the_first_command_is_sent(desk: Desk, tmp_path: Path) -> None:
    beside = sqlite3.connect(tmp_path / "jobs.sqlite")

    def phase() -> str:
        (found,) = beside.execute("select phase from jobs").fetchone()
        return str(found)

    with desk.records.together():
        cancel_and_retire(desk)
        desk.records.send(lambda: desk.executors.sent.append(phase()))
        assert (phase(), desk.executors.sent, desk.hook.retirees) == ("queued", [], [])
    assert (desk.executors.sent, desk.hook.retirees) == (["retire j", "cancelled"], [desk.id])


def test_changes_made_together_are_all_taken_back_where_one_of_them_fails(desk: Desk) -> None:
    before = desk.job
    with pytest.raises(ArithmeticError):
        together(desk, cancel_and_retire, fail)
    assert (desk.job, desk.executors.sent, desk.hook.retirees) == (before, [], [])
    desk.records.apply(end(desk.job, Phase.CANCELLED, "cancelled by the user", 3.0), 3.0)
    assert desk.job.phase is Phase.CANCELLED


def test_a_command_that_raises_keeps_no_other_from_being_sent(desk: Desk) -> None:
    desk.executors.broken.add(desk.id)
    with pytest.raises(RuntimeError, match="no way to it"):
        together(desk, cancel_and_retire)
    assert (desk.job.retired, desk.hook.retirees) == (True, [desk.id])


class Broken(CycleHook):
    """Holds the GPUs of a job, then fails."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def changed(self, change: Change) -> None:
        self.store.hold(UsageInterval(change.after.id, change.now, None, "t4", 1, 1))
        raise ArithmeticError


def test_a_record_and_the_intervals_that_follow_from_it_are_written_together(desk: Desk) -> None:
    records = Records(desk.store, desk.executors, Hooks([Broken(desk.store)], strict=True), SETTINGS)
    before = desk.job
    with pytest.raises(HookError, match="Broken"):
        records.apply(claim(before, (A,), 1.0), 1.0)
    assert (desk.job, desk.store.intervals()) == (before, [])
