"""Whatever is asked and whatever dies: a job ends up training where it should, or says why not."""

from __future__ import annotations

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.protocol.job_events import JobFailed, Running
from coadapt.executor.protocol.messages import Join, SetBatch, Stop
from coadapt.executor.reconciling.effects import StartWorker
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.simulated_workers import World, slot, trained

A, B, C, D = slot("n1"), slot("n1", 1), slot("n2"), slot("n3", gpu_type="t4")


def test_cancel_ends_everything_at_once(world: World) -> None:
    trained(world, A, B)
    world.cancel()
    world.run(0.1)
    assert world.state == "cancelled"
    assert world.granted == set()
    assert world.commands(Stop) == []


def test_a_new_batch_plan_goes_to_rank_0_only_and_only_while_training(world: World) -> None:
    assert world.machine.set_batch(BatchPlan(8), 0.0) == []
    trained(world, A, B)
    effects = world.machine.set_batch(BatchPlan(8, 1), world.now)
    assert [(e.worker, e.command) for e in effects] == [(world.machine.group[0], SetBatch(BatchPlan(8, 1)))]


def test_commands_from_before_a_restart_of_the_executor_are_void(world: World) -> None:
    machine = world.machine
    machine.ignore(3, 2)
    assert [effect for effect in machine.assign((A,), 3, 0.0) if isinstance(effect, StartWorker)] == []
    assert machine.profile(B, 2, 0.0) == []
    assert [effect.slot for effect in machine.assign((A,), 4, 0.0) if isinstance(effect, StartWorker)] == [A]
    assert [effect.slot for effect in machine.profile(B, 3, 0.0) if isinstance(effect, StartWorker)] == [B]


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


HISTORY = st.lists(ACTIONS, max_size=25), st.booleans(), st.booleans()
# Shrinking a long history takes minutes; a failing one is printed as it is.
UNSHRUNK = [Phase.explicit, Phase.generate]


@settings(max_examples=25, phases=UNSHRUNK)
@given(*HISTORY)
def test_every_history_ends_where_the_job_should_be(actions: list, deaf: bool, hands_over: bool) -> None:
    play(actions, deaf, hands_over)


@pytest.mark.slow
@settings(max_examples=600, phases=UNSHRUNK)
@given(*HISTORY)
def test_many_histories_end_where_the_job_should_be(actions: list, deaf: bool, hands_over: bool) -> None:
    play(actions, deaf, hands_over)


def play(actions: list, deaf: bool, hands_over: bool) -> None:
    """Assignments, also overtaken ones, deaths, lost nodes, hangs and errors come in any order.

    Then the job trains on exactly the slots that it was last assigned, and has given back all others. `World`
    asserts that it never had two workers in one slot.
    """
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
