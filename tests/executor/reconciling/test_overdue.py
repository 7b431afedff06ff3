"""Nothing waits for ever: whoever does not answer in time is left behind."""

from __future__ import annotations

from coadapt.executor.protocol.job_events import Running, WorkerLost
from coadapt.executor.reconciling.timeouts import Timeouts

from tests.support.simulated_workers import World, slot, trained

A, B, C, D = slot("n1"), slot("n1", 1), slot("n2"), slot("n3", gpu_type="t4")


def test_a_rank_0_whose_outputs_take_too_long_is_not_waited_for() -> None:
    world = trained(World(timeouts=Timeouts(regroup_s=10.0), hands_over=True), A, B, C)
    world.leaving_s = 1000.0
    world.assign(B, C)
    world.run(11)
    assert world.state == "training"
    assert world.training_on == {B, C}
    assert world.of(WorkerLost) == []


def test_the_rank_that_hangs_is_killed_and_the_others_go_on(world: World) -> None:
    trained(world, A, B, C)
    world.run(5)
    hung = world.worker_in(B)
    world.processes[hung].hung = True
    world.run(40)
    assert not world.processes[hung].alive
    assert [lost.slot for lost in world.of(WorkerLost)] == [B]
    assert world.of(Running)[1].recovered
    assert set(world.of(Running)[1].slots) == {A, C}
    world.run(10)
    assert world.training_on == {A, B, C}


def test_a_group_that_hangs_without_a_hung_rank_is_formed_again_and_nobody_is_killed(world: World) -> None:
    trained(world, A, B)
    workers = world.live()
    world.silent = True  # a lost packet: everyone waits for everyone
    world.run(22)
    world.silent = False
    world.run(5)
    assert world.live() == workers
    assert world.training_on == {A, B}
    assert world.of(Running)[-1].recovered


def test_survivors_that_never_answer_are_killed_and_the_job_starts_cold(world: World) -> None:
    trained(world, A, B)
    for id in world.live():
        world.processes[id].hung = True
    world.die(world.worker_in(A))
    world.run(60)
    assert world.training_on == {A, B}
    assert not world.of(Running)[-1].warm


def test_a_group_that_does_not_stop_in_time_is_killed_and_its_owner_told() -> None:
    world = trained(World(timeouts=Timeouts(stop_s=30.0)), A)
    world.processes[world.worker_in(A)].hung = True
    world.assign()
    world.run(29)
    assert world.state == "stopping"
    world.run(2)
    assert world.state == "idle"
    assert world.granted == set()
    assert world.of(WorkerLost) == [WorkerLost("the group did not stop in 30 s and was killed")]


def test_a_slow_newcomer_does_not_hold_up_the_others_for_ever() -> None:
    world = World(timeouts=Timeouts(gather_s=10))
    trained(world, A)
    world.assign(A, B, C)
    world.processes[world.worker_in(C)].alive = False  # never gets ready
    world.run(20)
    assert world.training_on == {A, B}
