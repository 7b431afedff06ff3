"""A job is measured beside whatever it trains: each order has one answer, and its slot comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.reports import ProfileProgress
from coadapt.executor.protocol.job_events import JobFailed, ProfileFinished, WorkerLost
from coadapt.executor.protocol.messages import Crashed, Trying
from coadapt.executor.reconciling.effects import KeepProfile
from coadapt.executor.reconciling.profile_runs import PROFILE_RESTARTS
from coadapt.executor.reconciling.timeouts import Timeouts
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.simulated_workers import World, slot, trained

A, B, C, D = slot("n1"), slot("n1", 1), slot("n2"), slot("n3", gpu_type="t4")


def profiled(world: World) -> list[ProfileFinished]:
    """Return how profile runs ended, whatever their numbers."""
    return [replace(event, sequence=0) for event in world.of(ProfileFinished)]


def test_a_profile_run_stands_beside_training_and_frees_its_slot(world: World) -> None:
    trained(world, A)
    world.granted.add(D)
    world.profile(D)
    world.run(6)
    world.die(world.worker_in(D), 0)
    world.run(1)
    assert profiled(world) == [ProfileFinished("t4", True)]
    assert world.training_on == {A}
    assert world.granted == {A}


def test_a_profile_run_killed_by_lack_of_memory_keeps_what_it_measured_and_one_that_measured_nothing_says_why(
    world: World,
) -> None:
    world.profile(D)
    world.run(5)
    world.die(world.worker_in(D), -9)
    world.run(1)
    world.profile(D)
    world.run(2)
    world.crash(world.worker_in(D), "ImportError: x")
    world.run(1)
    assert profiled(world) == [
        ProfileFinished("t4", True),
        ProfileFinished("t4", False, "ImportError: x", fault=True, traceback="Traceback …"),
    ]


@pytest.mark.parametrize("dies_silently", [False, True])
def test_a_profile_run_that_runs_out_of_memory_goes_on_in_a_new_process_until_the_limit_is_narrowed_down(
    world: World, dies_silently: bool
) -> None:
    trained(world, A)
    world.fits, world.dies_silently = 300, dies_silently
    world.granted.add(D)
    world.profile(D)
    world.run(30)
    assert profiled(world) == [ProfileFinished("t4", True)]
    (kept,) = world.kept
    largest = max(row.local_bsz for row in kept.progress.rows)
    assert kept.gpu_type == "t4"
    assert 300 / 1.25 <= largest <= 300 < min(kept.progress.failed) <= 1.25 * 300
    assert world.processes_in(D) <= 1 + PROFILE_RESTARTS
    assert world.training_on == {A}
    assert (world.granted, world.of(WorkerLost), world.machine.budget.recoveries) == ({A}, [], 0)


@pytest.mark.parametrize("dies_silently", [False, True])
def test_not_even_the_smallest_size_fits(world: World, dies_silently: bool) -> None:
    world.fits, world.dies_silently = 3, dies_silently
    world.profile(D)
    world.run(10)
    why = "memory runs out at the smallest local batch size, 4 (min_local_batch_size)"
    assert profiled(world) == [ProfileFinished("t4", False, why)]
    assert world.processes_in(D) == 1
    assert world.kept == [KeepProfile("t4", ProfileProgress(failed=(4,)))]


def test_an_error_of_the_script_ends_a_profile_run_at_once_whatever_was_being_tried(world: World) -> None:
    world.fits = 1 << 20
    world.profile(D)
    world.run(4.1)
    world.crash(world.worker_in(D), "ValueError: odd batch")
    world.run(10)
    assert (world.processes_in(D), world.kept[0].progress.failed) == (1, ())
    assert profiled(world) == [ProfileFinished("t4", True)]


def test_an_error_at_the_scripts_own_batch_size_is_its_fault(world: World) -> None:
    world.fits, world.own_batch_size = 1 << 20, 4
    world.profile(D)
    world.run(4.05)  # the smallest size, 4, is tried
    world.crash(world.worker_in(D), "ValueError: more than one sample is needed")
    world.run(10)
    (ended,) = profiled(world)
    assert (ended.ok, ended.fault) == (False, True)


def test_an_error_below_the_scripts_own_batch_size_raises_the_floor(world: World) -> None:
    world.fits, world.own_batch_size = 1 << 20, 32
    world.profile(D)
    world.run(4.05)
    world.crash(world.worker_in(D), "ValueError: more than one sample is needed")
    world.run(20)
    assert profiled(world) == [ProfileFinished("t4", True)]
    (kept,) = world.kept
    assert (kept.progress.floor, min(row.local_bsz for row in kept.progress.rows)) == (8, 8)


def test_out_of_memory_before_any_size_was_tried_is_no_finding(world: World) -> None:
    world.profile(D)
    world.run(2)
    world.die(world.worker_in(D), 1, Crashed("OutOfMemoryError: the model", "", out_of_memory=True))
    world.run(10)
    assert profiled(world) == [ProfileFinished("t4", False, "OutOfMemoryError: the model")]
    assert (world.processes_in(D), world.kept) == (1, [KeepProfile("t4", ProfileProgress())])


def test_a_profile_run_that_takes_too_long_is_not_taken_for_one_without_memory() -> None:
    world = World(timeouts=Timeouts(profile_s=10.0))
    world.profile(D)
    world.run(4.1)
    assert world.machine.event(world.worker_in(D), Trying(16), world.now) == []
    world.run(20)
    assert (world.processes_in(D), world.kept[0].progress.failed) == (1, ())
    assert profiled(world) == [ProfileFinished("t4", True)]


def test_cancelling_between_two_processes_of_a_profile_run_frees_its_slot(world: World) -> None:
    world.fits = 300
    world.granted.add(D)
    world.profile(D)
    while not any(worker.replaced for worker in world.machine.profiles.workers.values()):
        world.run(0.01)
    world.cancel()
    world.run(5)
    assert (world.granted, world.processes_in(D)) == (set(), 1)


def test_giving_up_a_profile_run_ends_it_alone(world: World) -> None:
    trained(world, A)
    world.granted.add(D)
    world.profile(D)
    world.run(5)
    world.end_profile(D)
    world.run(1)
    assert (world.granted, world.training_on, profiled(world)) == ({A}, {A}, [])
    world.granted.add(D)
    world.end_profile(D)
    assert world.granted == {A}, "a run that is not known holds nothing"
    assert world.state == "training"


def test_a_profile_run_whose_node_is_lost_says_so(world: World) -> None:
    trained(world, A)
    world.profile(D)
    world.run(2)
    world.die(world.worker_in(D), code=None)
    world.run(1)
    assert profiled(world) == [ProfileFinished("t4", False, "node lost", lost=True)]
    assert world.machine.budget.recoveries == 0


def test_a_job_that_has_ended_takes_no_slot_to_be_measured_in(world: World) -> None:
    world.cancel()
    world.granted.add(D)
    world.profile(D)
    assert (world.granted, world.processes_in(D)) == (set(), 0)


MEASURED_IN = [D, slot("n3", 1, "t4"), slot("n4")]
ACTIONS = st.one_of(
    st.tuples(st.just("profile"), st.integers(0, 2)),
    st.tuples(st.just("give up"), st.integers(0, 9)),
    st.tuples(st.just("assign"), st.sets(st.sampled_from([A, B, C]))),
    st.tuples(st.just("die"), st.integers(0, 9)),
    st.tuples(st.just("node"), st.integers(0, 9)),
    st.tuples(st.just("out of memory"), st.integers(0, 9)),
    st.tuples(st.just("crash"), st.integers(0, 9)),
    st.tuples(st.just("cancel"), st.just(0)),
    st.tuples(st.just("run"), st.sampled_from([0.05, 0.5, 1.0, 3.02, 4.1])),
)


@settings(max_examples=100, phases=[Phase.explicit, Phase.generate])
@given(st.lists(ACTIONS, max_size=25), st.sampled_from([None, 3, 300, 1 << 20]), st.booleans())
def test_every_run_ends_in_one_answer_and_its_slot_comes_back_whatever_becomes_of_the_job(
    actions: list, fits: int | None, dies_silently: bool
) -> None:
    """`World` asserts that no slot has two workers and that none is released with a worker in it."""
    world = World(max_failures=1000, timeouts=Timeouts(hang_s=20.0, profile_s=60.0))
    world.fits, world.dies_silently = fits, dies_silently
    desired: set = set()
    ordered: dict[int, object] = {}
    given_up: set[int] = set()
    cancelled = False
    for action, argument in actions:
        live = world.live()
        if action == "profile":
            where = MEASURED_IN[argument]
            if where not in world.granted:
                world.granted.add(where)
                ordered[world.profile(where)] = where
        elif action == "give up" and ordered:
            sequence = list(ordered)[argument % len(ordered)]
            if ordered[sequence] in world.granted:
                given_up.add(sequence)
                world.end_profile(ordered[sequence], sequence)
        elif action == "assign":
            desired = set(argument)
            world.assign(*desired)
        elif action == "cancel":
            cancelled = True
            world.cancel()
        elif action == "run":
            world.run(argument)
        elif live:
            worker = live[argument % len(live)]
            if action == "out of memory":
                world.die(worker, 1, Crashed("OutOfMemoryError: no", "", out_of_memory=True))
            elif action == "crash":
                world.crash(worker, f"ValueError: {len(world.told)}")
            else:
                world.die(worker, -9 if action == "die" else None)
    world.run(2000)
    answers = [event.sequence for event in world.of(ProfileFinished)]
    assert len(answers) == len(set(answers))
    assert set(answers) <= set(ordered)
    over = cancelled or bool(world.of(JobFailed))
    if not over:
        assert set(ordered) - given_up <= set(answers)
    assert world.granted == (set() if over else desired)
