"""What a training run knows of its slots and workers, and when it has to be looked at again."""

from __future__ import annotations

import math

import pytest
from coadapt.core.slot import Slot
from coadapt.executor.protocol.job_events import WorkerLost
from coadapt.executor.reconciling.effects import KillWorker, StartWorker, Tell
from coadapt.executor.reconciling.slot_tries import TRIES
from coadapt.executor.reconciling.states import Group, Pause, Starting, Training
from coadapt.executor.reconciling.timeouts import Timeouts
from coadapt.executor.reconciling.training_run import TrainingRun
from coadapt.executor.reconciling.worker_state import Stage, TrainingWorker

from tests.support.simulated_workers import slot, training_run

A, B, C = (slot(node) for node in ("n1", "n2", "n3"))
TIMEOUTS = Timeouts(gather_s=10.0, hang_s=20.0)


@pytest.fixture
def measured() -> set[Slot]:
    return set()


@pytest.fixture
def run(measured: set[Slot]) -> TrainingRun:
    return training_run(A, B, C, timeouts=TIMEOUTS, measured=lambda: measured)


def ready(run: TrainingRun, where: Slot, now: float) -> TrainingWorker:
    """Start a worker that is ready at once."""
    run.start(where, now)
    worker = [*run.workers.values()][-1]
    worker.stage, worker.ready_s = Stage.READY, now
    worker.not_due()
    return worker


def trains(run: TrainingRun, *workers: TrainingWorker, now: float) -> None:
    for worker in workers:
        worker.stage, worker.heard_s = Stage.MEMBER, now
    run.state = Training(Group(1, tuple(worker.id for worker in workers), warm=False))


def test_slots_that_nobody_is_in_are_vacant_also_where_a_profile_run_is(
    run: TrainingRun, measured: set[Slot]
) -> None:
    assert run.vacant == [A, B, C]
    run.start(A, 0.0)
    measured.add(B)
    assert run.vacant == [C]
    assert run.occupied == {A, B}


def test_a_worker_is_started_in_every_vacant_slot_and_told_its_likely_rank(run: TrainingRun) -> None:
    run.start_vacant(0.0)
    started = [effect for effect in run.effects.take() if isinstance(effect, StartWorker)]
    assert [(one.slot, one.rank, one.world_size) for one in started] == [(A, 0, 3), (B, 1, 3), (C, 2, 3)]
    run.start_vacant(0.0)
    assert run.effects.take() == []


def test_a_slot_in_which_nothing_starts_is_waited_for_and_at_last_given_up(run: TrainingRun) -> None:
    run.slot_failed(A, "exited with status 1", 0.0)
    run.start_vacant(0.0)
    assert {worker.slot for worker in run.workers.values()} == {B, C}
    assert run.tries.not_before_s(A) > 0.0
    for _ in range(TRIES - 1):
        run.slot_failed(A, "exited with status 1", 0.0)
    told = [effect.event for effect in run.effects.take() if isinstance(effect, Tell)]
    assert told == [WorkerLost(f"gave up a slot after {TRIES} failed starts: exited with status 1", A)]
    assert run.targets == {B, C}


def test_only_ready_workers_in_wanted_slots_stand_by(run: TrainingRun) -> None:
    wanted, leaving, elsewhere = (ready(run, where, 0.0) for where in (A, B, C))
    leaving.retired, run.desired = True, (A, B)
    assert run.standby == [wanted]
    run.dismiss_unwanted()
    assert [effect for effect in run.effects.take() if isinstance(effect, KillWorker)] == [
        KillWorker(elsewhere.id)
    ]


def test_who_is_ready_waits_a_while_for_the_others(run: TrainingRun) -> None:
    ready(run, A, 5.0)
    assert [run.has_gathered(now) for now in (14.9, 15.0)] == [False, True]


def test_it_is_looked_at_when_the_first_wait_is_over_and_no_later_than_a_hang(run: TrainingRun) -> None:
    run.desired = (A,)
    run.state, run.not_before_s = Starting(Pause()), 3.0
    assert run.next_deadline_s(0.0) == 3.0
    worker = ready(run, A, 4.0)
    assert run.next_deadline_s(4.0) == 14.0, "it may gather others until then"
    assert run.next_deadline_s(14.0) == math.inf, "which every look finds out by itself"
    trains(run, worker, now=100.0)
    assert run.next_deadline_s(101.0) == 120.0


def test_a_killed_or_gone_member_is_none_any_more(run: TrainingRun) -> None:
    first, second = ready(run, A, 0.0), ready(run, B, 0.0)
    trains(run, first, second, now=0.0)
    first.steps, second.steps = 7, 5
    assert (run.members, run.steps) == ([first, second], 7)
    first.kill(run.effects)
    assert (run.members, run.steps) == ([second], 5)
    assert run.ranks == (first.id, second.id)


def test_a_pause_begins_when_a_group_stops_training_and_goes_on_until_one_trains(run: TrainingRun) -> None:
    assert run.pause(5.0) == Pause(), "nothing has trained yet"
    trains(run, ready(run, A, 0.0), now=0.0)
    begun = run.pause(8.0)
    assert begun.since_s == 8.0
    run.state = Starting(begun)
    assert run.pause(20.0) is begun


def test_a_job_that_cannot_grow_keeps_to_the_slots_of_its_group(run: TrainingRun) -> None:
    trains(run, ready(run, A, 0.0), now=0.0)
    assert run.beyond_growth == set()
    run.cannot_grow = True
    assert run.beyond_growth == {B, C}
