"""Whatever is asked and whatever dies: a job ends up training where it should, or says why not."""

from __future__ import annotations

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.protocol.job_events import (
    Failing,
    JobFailed,
    JobFinished,
    Released,
    Running,
    WorkerLost,
)
from coadapt.executor.protocol.messages import Crashed, Join, Leave, SetBatch, Stop
from coadapt.executor.protocol.ranks import Rendezvous, joins, rank_order
from coadapt.executor.protocol.worker_events import Gone
from coadapt.executor.reconciling.failures import NO_OTHER_END, SAME_TWICE
from coadapt.executor.reconciling.timeouts import Timeouts
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.simulated_workers import World, slot, trained

A, B, C, D = slot("n1"), slot("n1", 1), slot("n2"), slot("n3", gpu_type="t4")


@pytest.fixture
def world() -> World:
    return World()


def commands(world: World, kind: type) -> list:
    return [command for _, command in world.sent if isinstance(command, kind)]


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
    assert len(commands(world, Leave)) == 1
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


def test_a_rank_0_whose_outputs_take_too_long_is_not_waited_for() -> None:
    world = trained(World(timeouts=Timeouts(regroup_s=10.0), hands_over=True), A, B, C)
    world.leaving_s = 1000.0
    world.assign(B, C)
    world.run(11)
    assert world.state == "training"
    assert world.training_on == {B, C}
    assert world.of(WorkerLost) == []


@pytest.mark.parametrize("dies", [A, B, C])
def test_a_worker_lost_while_outputs_are_handed_over_costs_only_itself(dies) -> None:
    world = trained(World(hands_over=True), A, B, C)
    survivors = {world.worker_in(slot) for slot in {B, C} - {dies}}
    world.leaving_s = 5.0
    world.assign(B, C)
    world.run(2)
    if dies is A:  # its machine
        world.processes[world.machine.training.rank_0].alive = True
        world.die(world.machine.training.rank_0, None)
    else:
        world.die(world.worker_in(dies))
    world.run(1)
    assert survivors <= set(world.live())
    world.run(20)
    assert survivors <= set(world.live())
    assert world.training_on == {B, C}


def test_a_migration_stops_the_old_group_with_a_checkpoint_only_when_newcomers_are_ready(world: World) -> None:
    trained(world, A, B)
    world.assign(D)
    world.run(2)
    assert world.training_on == {A, B}
    world.run(3)
    assert {stop.save for stop in commands(world, Stop)} == {True}
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
    assert commands(world, Stop) == [Stop(save=True)] * 2
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
    assert not commands(world, Stop)
    assert world.granted == {A}
    assert world.of(Running)[-1] == Running(world.sequence, (A,), warm=False, pause_s=None, generation=1)


def test_an_unchanged_placement_is_confirmed_without_touching_the_group(world: World) -> None:
    trained(world, A, B)
    before = len(world.sent)
    world.assign(B, A)
    world.run(1)
    assert len(world.sent) == before
    assert world.of(Running)[-1].sequence == 2


@pytest.mark.parametrize("exit_known_s", [0.01, 0.04], ids=["exit seen first", "survivors notice first"])
def test_survivors_of_a_killed_worker_go_on_at_once_and_its_slot_is_filled_again(
    world: World, exit_known_s: float
) -> None:
    world.exit_known_s = exit_known_s
    trained(world, A, B, C)
    world.die(world.worker_in(B))
    world.run(0.5)
    assert world.training_on == {A, C}
    recovered = world.of(Running)[-1]
    assert recovered.recovered
    assert recovered.warm
    assert recovered.pause_s < 0.5
    assert [lost.slot for lost in world.of(WorkerLost)] == [B]
    world.run(5)
    assert world.training_on == {A, B, C}
    assert world.machine.budget.failures == 0


def test_a_lost_node_is_recovered_from_in_place_too(world: World) -> None:
    trained(world, A, C)
    world.die(world.worker_in(C), code=None)
    world.run(0.5)
    assert world.training_on == {A}


def test_a_node_that_takes_many_replicas_with_it_is_one_loss(world: World) -> None:
    slots = [slot("n1", i) for i in range(6)]
    trained(world, *slots, D)
    for where in slots:
        world.die(world.worker_in(where))
    world.run(8)
    assert world.of(JobFailed) == []
    assert world.machine.budget.recoveries == 1
    assert world.training_on == {*slots, D}


def test_the_only_worker_lost_means_a_cold_start_in_the_same_slot(world: World) -> None:
    trained(world, A)
    world.die(world.worker_in(A))
    world.run(5)
    assert world.training_on == {A}
    assert not world.of(Running)[-1].warm
    assert world.of(Released) == []


def test_a_worker_lost_while_the_group_forms_does_not_block_the_others(world: World) -> None:
    trained(world, A)
    world.assign(A, B, C)
    world.run(3.05)
    assert world.state == "forming"
    world.die(world.worker_in(C))
    world.run(1)
    assert world.training_on == {A, B}
    world.run(5)
    assert world.training_on == {A, B, C}


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


def test_an_error_of_the_script_is_tried_again_and_then_ends_the_job_with_its_traceback() -> None:
    world = World(max_failures=2)
    world.assign(A, B)
    for number in range(3):
        world.run(20)
        world.crash(world.worker_in(A), f"ValueError: {number}")
    world.run(5)
    assert world.of(Failing) == [Failing(f"ValueError: {n}", n + 1, "Traceback …") for n in (0, 1)]
    why = "3 errors, of 2 that max_failures allows"
    assert world.of(JobFailed) == [JobFailed("ValueError: 2", "Traceback …", 3, why)]
    assert [running.retried for running in world.of(Running)] == [False, True, True]
    assert world.state == "failed"
    assert world.granted == set()
    assert world.live() == []


def test_the_same_error_twice_without_progress_between_is_enough(world: World) -> None:
    world.assign(A)
    for _ in range(2):
        world.run(20)
        world.crash(world.worker_in(A))
    world.run(5)
    (failed,) = world.of(JobFailed)
    assert (failed.summary, failed.tries, failed.why) == ("ValueError: no", 2, SAME_TWICE)


def test_the_same_error_after_progress_is_another_one(world: World) -> None:
    world.assign(A)
    for seconds in (20, 30, 45):
        world.run(seconds)
        world.crash(world.worker_in(A))
    world.run(30)
    assert len(world.of(Failing)) == 3
    assert world.training_on == {A}


def test_an_end_that_no_other_try_can_change_is_final_at_once(world: World) -> None:
    world.assign(A)
    world.run(2)
    world.crash(world.worker_in(A), "train.py never called coadapt.prepare")
    world.run(1)
    assert (world.of(Failing), world.of(JobFailed)[0].why) == ([], NO_OTHER_END)


def test_memory_that_runs_out_twice_is_tried_again_with_the_smaller_batch(world: World) -> None:
    world.assign(A)
    for _ in range(2):
        world.run(20)
        world.die(world.worker_in(A), 1, Crashed("OutOfMemoryError: no", "Traceback …", out_of_memory=True))
    world.run(20)
    assert world.training_on == {A}


def test_a_job_that_was_stopped_while_it_was_to_be_tried_again_starts_as_any(world: World) -> None:
    trained(world, A)
    world.crash(world.worker_in(A))
    world.run(0.5)
    world.assign()
    world.run(1)
    world.assign(A)
    world.run(10)
    assert not world.of(Running)[-1].retried


def test_a_job_that_lost_its_slots_while_it_recovered_starts_as_any(world: World) -> None:
    trained(world, A)
    world.die(world.worker_in(A))
    world.assign()
    world.run(1)
    world.assign(B)
    world.run(10)
    assert world.training_on == {B}
    assert not world.of(Running)[-1].recovered


@pytest.mark.parametrize(
    ("code", "summary"), [(0, "train.py ended early, with status 0"), (3, "train.py exited with status 3")]
)
def test_ending_without_a_word_is_an_error_of_the_script(code: int, summary: str) -> None:
    world = World(max_failures=0)
    trained(world, A)
    world.die(world.worker_in(A), code)
    world.run(1)
    assert world.of(JobFailed)[0].summary == summary


def test_errors_that_follow_a_lost_worker_are_not_the_scripts(world: World) -> None:
    trained(world, A, B, C)
    world.die(world.worker_in(B))
    world.run(0.015)
    world.crash(world.worker_in(C), "RuntimeError: connection closed by peer")
    world.run(10)
    assert world.machine.budget.failures == 0
    assert world.training_on == {A, B, C}


def test_an_error_of_one_rank_counts_although_its_peers_notice_first(world: World) -> None:
    world.exit_known_s = 0.04
    trained(world, A, B)
    world.crash(world.worker_in(B))
    world.run(20)
    assert world.machine.budget.failures == 1
    assert world.training_on == {A, B}


def test_a_script_that_dies_by_itself_again_and_again_is_given_up(world: World) -> None:
    world.broken_starts = {A, B}
    world.assign(A, B)
    world.run(300)
    (failed,) = world.of(JobFailed)
    assert "SIGSEGV" in failed.summary
    assert world.granted == set()


def test_one_broken_node_is_given_back_and_the_rest_trains(world: World) -> None:
    world.broken_starts = {C}
    world.assign(A, B, C)
    world.run(60)
    assert world.training_on == {A, B}
    assert world.granted == {A, B}
    assert "gave up a slot" in world.of(WorkerLost)[-1].reason


def test_a_slow_newcomer_does_not_hold_up_the_others_for_ever() -> None:
    world = World(timeouts=Timeouts(gather_s=10))
    trained(world, A)
    world.assign(A, B, C)
    world.processes[world.worker_in(C)].alive = False  # never gets ready
    world.run(20)
    assert world.training_on == {A, B}


def test_the_end_of_the_script_ends_the_job_with_rank_0s_metrics(world: World) -> None:
    trained(world, A, B)
    world.finish()
    world.run(1)
    assert world.of(JobFinished) == [JobFinished({"loss": 0.5}, False)]
    assert world.granted == set()
    assert world.of(WorkerLost) == []


def test_cancel_ends_everything_at_once(world: World) -> None:
    trained(world, A, B)
    world.cancel()
    world.run(0.1)
    assert world.state == "cancelled"
    assert world.granted == set()
    assert commands(world, Stop) == []


def test_requirements_that_cannot_be_installed_fail_the_job(world: World) -> None:
    world = World(max_failures=0)
    world.assign(A)
    world._later(0.5, world.live()[0], Gone("no such package: x", setup_failed=True))
    world.run(2)
    assert world.of(JobFailed)[0].summary == "no such package: x"


def test_a_new_batch_plan_goes_to_rank_0_only_and_only_while_training(world: World) -> None:
    assert world.machine.set_batch(BatchPlan(8), 0.0) == []
    trained(world, A, B)
    effects = world.machine.set_batch(BatchPlan(8, 1), world.now)
    assert [(e.worker, e.command) for e in effects] == [(world.machine.group[0], SetBatch(BatchPlan(8, 1)))]


def test_ranks_follow_the_old_group_and_then_the_nodes() -> None:
    slots = {"a": C, "b": A, "c": B, "d": D}
    order = rank_order(slots, previous=["x", "d"])
    assert order == ["d", "b", "c", "a"]
    commands = joins(order, slots, 7, Rendezvous("h", 1), None)
    assert [commands[id].rank for id in order] == [0, 1, 2, 3]
    assert [commands[id].local_rank for id in order] == [0, 0, 1, 0]
    assert {join.nodes for join in commands.values()} == {3}
    assert [commands[id].local_world_size for id in order] == [1, 2, 2, 1]


SLOTS = [A, B, C, D, slot("n2", 1)]
ACTIONS = st.one_of(
    st.tuples(st.just("assign"), st.sets(st.sampled_from(SLOTS))),
    st.tuples(st.just("overtake"), st.tuples(st.sets(st.sampled_from(SLOTS)), st.sets(st.sampled_from(SLOTS)))),
    st.tuples(st.just("die"), st.integers(0, 9)),
    st.tuples(st.just("node"), st.integers(0, 9)),
    st.tuples(st.just("hang"), st.integers(0, 9)),
    st.tuples(st.just("crash"), st.integers(0, 9)),
    st.tuples(st.just("run"), st.sampled_from([0.01, 0.05, 0.11, 0.5, 1.0, 3.02, 5.0])),
)


# Shrinking a long history takes minutes; a failing one is printed as it is.
@settings(max_examples=150, phases=[Phase.explicit, Phase.generate])
@given(st.lists(ACTIONS, max_size=25), st.booleans(), st.booleans())
def test_every_history_ends_where_the_job_should_be(actions: list, deaf: bool, hands_over: bool) -> None:
    """Assignments, also overtaken ones, deaths, lost nodes, hangs and errors in any order: then the job
    trains on exactly the slots it was last assigned, has given back all others, and never had two workers in one
    slot (`World` asserts)."""
    world = World(max_failures=1000, hands_over=hands_over)
    world.leaving_s = 0.3
    world.deaf_to_abort = deaf
    desired: set = set()
    for action, argument in actions:
        live = world.live()
        if action == "assign":
            desired = set(argument)
            world.assign(*argument)
        elif action == "overtake":
            overtaken, desired = map(set, argument)
            world.assign(*desired, overtaken=sorted(overtaken))
        elif action == "run":
            world.run(argument)
        elif live:
            worker = live[argument % len(live)]
            if action == "hang":
                world.processes[worker].hung = True
            elif action == "crash":
                world.crash(worker, f"ValueError: {len(world.told)}")
            else:
                world.die(worker, -9 if action == "die" else None)
    world.run(2000)
    if world.of(JobFailed):
        assert world.granted == set()
        return
    assert world.state == ("training" if desired else "idle")
    assert world.training_on == desired
    assert world.granted == desired
    generations = [command.generation for _, command in world.sent if isinstance(command, Join)]
    assert generations == sorted(generations)
    if desired:
        last = world.of(Running)[-1]
        assert last.sequence == world.sequence
        assert set(last.slots) == desired


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
