"""A job gets from the workers it has to the slots it was assigned, with as little pause as there can be."""

from __future__ import annotations

import pytest
from coadapt.executor.protocol.job_events import Released, Running, WorkerLost
from coadapt.executor.protocol.messages import Join, Leave, Stop

from tests.support.simulated_workers import World, slot, trained

A, B, C, D = slot("n1"), slot("n1", 1), slot("n2"), slot("n3", gpu_type="t4")


def test_a_first_start_is_cold_and_has_no_pause(world: World) -> None:
    trained(world, A, B)
    (running,) = world.of(Running)
    assert running == Running(1, (A, B), warm=False, pause_s=None, generation=1)


def test_growing_keeps_the_old_group_training_until_the_newcomer_is_ready(world: World) -> None:
    trained(world, A)
    old = world.worker_in(A)
    world.assign(A, C)
    world.run(2.5)
    assert world.state == "training"
    assert world.training_on == {A}
    world.run(3)
    running = world.of(Running)[-1]
    assert set(running.slots) == {A, C}
    assert running.warm
    assert running.pause_s == pytest.approx(0.1)
    assert world.worker_in(A) == old
    assert world.machine.group[0] == old, "the survivor stays rank 0"


def test_shrinking_is_one_regroup_and_releases_the_slot_when_its_worker_is_gone(world: World) -> None:
    trained(world, A, B, C)
    world.assign(A, C)
    world.run(1)
    assert world.training_on == {A, C}
    assert len(world.commands(Leave)) == 1
    assert world.of(Released) == [Released(2, (B,))]
    assert world.granted == {A, C}


def test_a_new_rank_0_goes_on_when_the_outputs_of_the_last_one_are_sent() -> None:
    world = trained(World(hands_over=True), A, B, C)
    _, second, third = world.machine.group
    world.leaving_s = 5.0
    world.assign(B, C)
    world.run(4)
    assert [id for id, sent in world.sent if isinstance(sent, Join) and sent.generation == 2] == [third]
    assert world.state == "forming"
    world.run(1.2)
    assert world.state == "training"
    assert world.machine.group == [second, third]
    assert world.of(Running)[-1].pause_s == pytest.approx(5.1)
    assert world.of(WorkerLost) == []
    assert world.granted == {B, C}


def test_a_new_rank_0_waits_for_no_one_where_nothing_is_sent_or_the_first_stays() -> None:
    for hands_over, left in ((False, (B, C)), (True, (A, C))):
        world = trained(World(hands_over=hands_over), A, B, C)
        world.leaving_s = 5.0
        world.assign(*left)
        world.run(1)
        assert world.state == "training"
        assert world.training_on == set(left)


def test_a_migration_stops_the_old_group_with_a_checkpoint_only_when_newcomers_are_ready(world: World) -> None:
    trained(world, A, B)
    world.assign(D)
    world.run(2)
    assert world.training_on == {A, B}
    world.run(3)
    assert {stop.save for stop in world.commands(Stop)} == {True}
    assert world.training_on == {D}
    running = world.of(Running)[-1]
    assert not running.warm
    assert running.pause_s is not None
    assert running.pause_s < 0.5
    assert world.granted == {D}


def test_no_slots_means_save_stop_and_release(world: World) -> None:
    trained(world, A, B)
    world.assign()
    world.run(2)
    assert world.commands(Stop) == [Stop(save=True)] * 2
    assert world.state == "idle"
    assert world.granted == set()


def test_an_older_or_repeated_assignment_changes_nothing(world: World) -> None:
    trained(world, A)
    before = len(world.told)
    world.assign(A, overtaken=[A])
    world.run(1)
    assert world.machine.assign((A,), world.sequence, world.now) == []
    assert world.machine.training.desired == (A,)
    assert [type(event) for event in world.told[before:]] == [Running]


@pytest.mark.parametrize("trains", [(), (A,)], ids=["idle", "training"])
def test_what_an_overtaken_assignment_would_have_brought_is_given_back_at_once(
    world: World, trains: tuple
) -> None:
    """Ray does not promise the order in which an actor with several threads takes its calls."""
    if trains:
        trained(world, *trains)
    world.assign(*trains, overtaken=[A, B])
    assert world.granted == set(trains)
    assert not [worker for worker in world.live() if world.processes[worker].slot == B]


def test_an_assignment_after_the_end_is_given_back_at_once(world: World) -> None:
    trained(world, A)
    world.cancel()
    world.assign(A, B)
    assert world.granted == {A}, "its worker is still on its way out"
    world.run(1)
    assert world.granted == set()


def test_a_group_answers_the_assignment_it_was_formed_for(world: World) -> None:
    trained(world, A)
    world.assign(D)
    while world.state != "forming":
        world.run(0.01)
    world.assign(A)
    world.run(10)
    assert [(event.sequence, event.slots) for event in world.of(Running)] == [(1, (A,)), (2, (D,)), (3, (A,))]


def test_survivors_that_form_on_the_way_elsewhere_answer_nothing_that_is_still_to_come(world: World) -> None:
    trained(world, A, B)
    world.assign(C, D)
    world.run(2)
    world.die(world.worker_in(B))
    world.run(1)
    assert world.of(Running)[-1].slots == (A,)
    assert world.of(Running)[-1].sequence == 1
    world.run(10)
    assert (world.of(Running)[-1].sequence, set(world.of(Running)[-1].slots)) == (2, {C, D})


def test_a_job_that_is_to_go_back_to_where_it_still_trains_just_goes_on(world: World) -> None:
    trained(world, A)
    group = world.machine.group
    world.assign(D)
    world.run(2)
    world.assign(A)
    world.run(5)
    assert world.machine.group == group
    assert not world.commands(Stop)
    assert world.granted == {A}
    assert world.of(Running)[-1] == Running(world.sequence, (A,), warm=False, pause_s=None, generation=1)


def test_an_unchanged_placement_is_confirmed_without_touching_the_group(world: World) -> None:
    trained(world, A, B)
    before = len(world.sent)
    world.assign(B, A)
    world.run(1)
    assert len(world.sent) == before
    assert world.of(Running)[-1].sequence == 2


def test_a_job_that_no_newcomer_can_join_stays_as_it_is(world: World) -> None:
    trained(world, A)
    world.unfit = {B, C}
    world.assign(A, B)
    world.run(20)
    assert (world.state, world.training_on) == ("training", {A})
    assert "cannot grow" in world.of(WorkerLost)[-1].reason
    started = world.processes_in(B)
    world.assign(A, B, C)
    world.run(20)
    assert (world.processes_in(B), world.processes_in(C), world.training_on) == (started, 0, {A})
    assert world.machine.budget.failures == 0
