"""What a worker says moves its job on, if it speaks of the group that counts now."""

from __future__ import annotations

from coadapt.core.reports import Progress, Report
from coadapt.executor.protocol.job_events import Running
from coadapt.executor.protocol.messages import Broken, Heartbeat, Joined, Ready
from coadapt.executor.reconciling.training_events import training_event
from coadapt.executor.reconciling.worker_state import Stage, TrainingWorker

from tests.support.simulated_workers import World, slot, trained

A, B = slot("n1"), slot("n1", 1)
READY = Ready("f", 4, 10, None, "SGD", False)


def worker(world: World, rank: int) -> TrainingWorker:
    return world.machine.training.workers[world.machine.group[rank]]


def test_a_group_trains_when_its_last_member_has_joined_it_and_not_an_older_one() -> None:
    world = trained(World(), A)
    world.assign(A, B)
    world.run(3.05)
    run = world.machine.training
    assert world.state == "forming"
    first, second = worker(world, 0), worker(world, 1)
    training_event(run, first, Joined(run.generation, 7, "peer"), world.now)
    training_event(run, second, Joined(run.generation - 1, 7, "peer"), world.now)
    assert run.state.name == "forming"
    training_event(run, second, Joined(run.generation, 7, "peer"), world.now)
    assert run.state.name == "training"
    assert run.rank_0 == first.id


def test_a_broken_group_is_recovered_from_once_it_is_the_one_that_counts() -> None:
    world = trained(World(), A, B)
    run = world.machine.training
    training_event(run, worker(world, 1), Broken(run.generation - 1, 5), world.now)
    assert run.state.name == "training"
    training_event(run, worker(world, 1), Broken(run.generation, 5), world.now)
    assert run.state.name == "recovering"


def test_a_worker_that_was_let_go_is_not_taken_for_ready() -> None:
    world = World()
    world.assign(A)
    world.run(1.5)
    run = world.machine.training
    (mine,) = run.workers.values()
    mine.retired = True
    training_event(run, mine, READY, world.now)
    assert mine.stage is Stage.STARTING
    mine.retired = False
    training_event(run, mine, READY, world.now)
    assert mine.stage is Stage.READY


def test_heartbeats_and_reports_are_signs_of_progress_and_steps_never_go_back() -> None:
    world = trained(World(), A)
    run, mine = world.machine.training, worker(world, 0)
    training_event(run, mine, Heartbeat(1, 20), 100.0)
    assert (mine.steps, mine.heard_s) == (20, 100.0)
    report = Report(1, "t4", 1, 1, [], None, None, 4, 4, 0, 0.1, 1.0, Progress(0, 1, 0.5, 15, 60, 60.0))
    training_event(run, mine, report, 101.0)
    assert (mine.steps, mine.heard_s) == (20, 101.0)


def test_a_join_of_the_group_before_says_nothing_of_the_one_that_trains() -> None:
    world = trained(World(), A, B)
    told = len(world.of(Running))
    training_event(world.machine.training, worker(world, 1), Joined(0, 0, "fresh"), world.now)
    assert len(world.of(Running)) == told
    assert world.state == "training"
