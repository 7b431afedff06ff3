"""Whatever ends a process, the job goes on, or ends with the reason."""

from __future__ import annotations

import pytest
from coadapt.core.job import RestartPolicy
from coadapt.core.slot import Slot
from coadapt.executor.protocol.job_events import Failing, JobFailed, JobFinished, Released, Running, WorkerLost
from coadapt.executor.protocol.messages import Crashed, Join
from coadapt.executor.protocol.worker_events import Gone
from coadapt.executor.reconciling.failures import NO_OTHER_END, OUTAGES, POLICY, SAME_TWICE

from tests.support.simulated_workers import World, slot, trained

A, B, C, D = slot("n1"), slot("n1", 1), slot("n2"), slot("n3", gpu_type="t4")


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


def test_a_new_rank_0_whose_node_is_lost_while_it_waits_for_outputs_is_told_nothing_more() -> None:
    world = trained(World(hands_over=True), A, B)
    world.leaving_s = 5.0
    world.assign(B)
    world.run(1)
    gone = world.worker_in(B)
    world.die(gone, None)
    world.run(20)
    joins = [command for worker, command in world.sent if worker == gone and isinstance(command, Join)]
    assert [join.generation for join in joins] == [1]
    assert world.training_on == {B}


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


@pytest.mark.parametrize(
    "summary", ["train.py never called coadapt.prepare", "checkpoint: does not fit the script"]
)
def test_an_end_that_no_other_try_can_change_is_final_at_once(summary: str, world: World) -> None:
    world.assign(A)
    world.run(2)
    world.crash(world.worker_in(A), summary)
    world.run(1)
    assert (world.of(Failing), world.of(JobFailed)[0].why) == ([], NO_OTHER_END)


def test_memory_that_runs_out_twice_is_tried_again_with_the_smaller_batch(world: World) -> None:
    world.assign(A)
    for _ in range(2):
        world.run(20)
        world.die(world.worker_in(A), 1, Crashed("OutOfMemoryError: no", "Traceback …", out_of_memory=True))
    world.run(20)
    assert world.training_on == {A}


@pytest.mark.parametrize("policy", [RestartPolicy.NEVER, RestartPolicy.ON_LOSS])
def test_an_error_ends_at_once_a_job_whose_policy_allows_no_other_try(policy: RestartPolicy) -> None:
    world = World(restarts=policy)
    world.assign(A, B)
    world.run(20)
    world.crash(world.worker_in(A))
    world.run(5)
    assert world.of(JobFailed) == [JobFailed("ValueError: no", "Traceback …", 1, POLICY)]
    assert world.of(Failing) == []


@pytest.mark.parametrize(
    ("policy", "state"), [(RestartPolicy.NEVER, "failed"), (RestartPolicy.ON_LOSS, "training")]
)
def test_memory_that_runs_out_at_a_chosen_batch_is_no_error_but_where_no_start_may_follow(
    policy: RestartPolicy, state: str
) -> None:
    world = World(restarts=policy)
    world.assign(A)
    world.run(20)
    world.die(world.worker_in(A), 1, Crashed("OutOfMemoryError: no", "Traceback …", out_of_memory=True))
    world.run(20)
    assert world.state == state


@pytest.mark.parametrize("slots", [(A,), (A, B)], ids=["the only one", "one of two"])
def test_a_lost_worker_ends_a_job_that_is_never_to_start_again_and_no_other(slots: tuple[Slot, ...]) -> None:
    for policy, state in ((RestartPolicy.NEVER, "failed"), (RestartPolicy.ON_LOSS, "training")):
        world = trained(World(restarts=policy), *slots)
        world.die(world.worker_in(A))
        world.run(20)
        assert world.state == state
        assert [failed.why for failed in world.of(JobFailed)] == [POLICY] * (state == "failed")
        assert world.machine.budget.failures == 0


def test_a_job_that_is_never_to_start_again_waits_for_no_storage_but_may_be_resized() -> None:
    world = trained(World(restarts=RestartPolicy.NEVER), A)
    world.assign(B)
    world.run(20)
    assert world.training_on == {B}
    world.die(world.worker_in(B), 1, Crashed("checkpoint.url: 's3://c': OSError: no", "", storage=True))
    world.run(1)
    (failed,) = world.of(JobFailed)
    assert failed.why == POLICY


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


def test_a_job_that_could_not_be_saved_at_its_stop_is_no_failure_of_its_script() -> None:
    world = trained(World(max_failures=0), A, B)
    first = world.machine.group[0]
    world.processes[first].hung = True  # it is busy with its checkpoint
    world.assign()
    world.run(1)
    refused = Crashed("checkpoint c could not be written: OSError: no", "", storage=True)
    world.die(first, 1, refused)
    world.run(30)
    assert world.state == "idle"
    assert world.granted == set()
    assert world.of(Failing) == world.of(JobFailed) == []
    (lost,) = world.of(WorkerLost)
    assert lost.reason == "the worker of rank 0 on node n1 ended: checkpoint c could not be written: OSError: no"
    world.assign(A)
    world.run(10)
    assert world.training_on == {A}
    assert world.machine.budget.failures == 0


def test_an_outage_of_storage_is_waited_for_longer_each_time_and_then_the_job_is_given_up() -> None:
    world = World(max_failures=0)
    world.assign(A)
    waits = []
    while not world.of(JobFailed):
        world.run(2)
        world.die(world.worker_in(A), 1, Crashed("checkpoint.url: 's3://c': OSError: no", "", storage=True))
        died_s = world.now
        while not world.of(JobFailed) and not world.live():
            world.run(0.05)
        waits.append(world.now - died_s)
    assert waits[:-1] == pytest.approx([min(30.0, 2.0**n) for n in range(OUTAGES)], abs=0.2)
    (failed,) = world.of(JobFailed)
    assert failed.summary == (
        "storage failed again and again: a worker on node n1 ended: checkpoint.url: 's3://c': OSError: no"
    )
    assert world.of(Failing) == []


def test_a_training_whose_end_is_never_saved_is_not_repeated_for_ever() -> None:
    world = World(max_failures=0)
    world.assign(A)
    trainings = 0
    while not world.of(JobFailed):
        trainings += 1
        world.run(60)
        refused = Crashed("checkpoint c could not be written: OSError: no", "", storage=True)
        world.processes[world.worker_in(A)].steps = 0  # nothing that it reached was kept
        world.die(world.worker_in(A), 1, refused)
        world.run(0.1)
    assert trainings == OUTAGES + 1


def test_survivors_train_on_while_the_place_of_one_that_storage_refused_waits(world: World) -> None:
    trained(world, A, B)
    refused = Crashed("checkpoint c could not be written: OSError: no", "", storage=True)
    world.die(world.worker_in(A), 1, refused)
    world.run(0.5)
    assert world.training_on == {B}
    world.run(10)
    assert world.training_on == {A, B}
    assert world.of(Failing) == []


def test_one_broken_node_is_given_back_and_the_rest_trains(world: World) -> None:
    world.broken_starts = {C}
    world.assign(A, B, C)
    world.run(60)
    assert world.training_on == {A, B}
    assert world.granted == {A, B}
    assert "gave up a slot" in world.of(WorkerLost)[-1].reason


def test_the_end_of_the_script_ends_the_job_with_rank_0s_metrics(world: World) -> None:
    trained(world, A, B)
    world.finish()
    world.run(1)
    assert world.of(JobFinished) == [JobFinished({"loss": 0.5}, False)]
    assert world.granted == set()
    assert world.of(WorkerLost) == []


def test_requirements_that_cannot_be_installed_fail_the_job(world: World) -> None:
    world = World(max_failures=0)
    world.assign(A)
    world._later(0.5, world.live()[0], Gone("no such package: x", setup_failed=True))
    world.run(2)
    assert world.of(JobFailed)[0].summary == "no such package: x"
