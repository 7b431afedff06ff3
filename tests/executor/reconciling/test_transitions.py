"""Each change of a job's state sends what it has to, to those whom it concerns, and tells the service once."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.core.slot import Slot
from coadapt.executor.protocol.job_events import (
    ExecutorEvent,
    Failing,
    JobFailed,
    JobFinished,
    Released,
    Running,
    WorkerLost,
)
from coadapt.executor.protocol.messages import Abort, Command, Crashed, Finished, Join, Leave, Left, Stop
from coadapt.executor.reconciling.effects import KillWorker, Send, Tell
from coadapt.executor.reconciling.slot_tries import backoff_s
from coadapt.executor.reconciling.states import (
    Finishing,
    Forming,
    Group,
    JobEnd,
    Pause,
    Recovering,
    Starting,
    Training,
)
from coadapt.executor.reconciling.transitions import (
    abort_peers,
    end,
    form,
    member_lost,
    script_failed,
    script_finished,
    settle,
    start_recovery,
    stop,
    succeed,
)
from coadapt.executor.reconciling.worker_state import Stage, TrainingWorker

from tests.support.simulated_workers import slot, training_run

A, B, C = slot("n1"), slot("n1", 1), slot("n2")


class Run:
    """A job whose workers `a`, `b`, … are in slots, and what is sent and told."""

    def __init__(self, *slots: Slot, max_failures: int = 1, hands_over: bool = False) -> None:
        self.run = training_run(*slots, max_failures=max_failures, hands_over=hands_over)
        self.run.sequence = 3
        for id, where in zip("abc", slots, strict=False):
            self.run.workers[id] = TrainingWorker(id, where, stage=Stage.READY)

    def trained(self, generation: int = 1) -> Run:
        """Let all workers be a group that trains."""
        workers = list(self.run.workers.values())
        form(self.run, workers, [], 0.0)
        for worker in workers:
            worker.joined = generation
        assert isinstance(self.run.state, Forming)
        settle(self.run, self.run.state, 1.0)
        self.run.effects.take()
        return self

    def __getitem__(self, id: str) -> TrainingWorker:
        return self.run.workers[id]

    def taken(self) -> tuple[list[tuple[str, Command]], list[ExecutorEvent], list[str]]:
        """Return what was sent, what was told, and who was killed since."""
        effects = self.run.effects.take()
        sent = [(effect.worker, effect.command) for effect in effects if isinstance(effect, Send)]
        told = [effect.event for effect in effects if isinstance(effect, Tell)]
        return sent, told, [effect.worker for effect in effects if isinstance(effect, KillWorker)]


def test_a_group_is_formed_of_its_members_by_rank_and_leavers_are_told_when_to_go() -> None:
    job = Run(B, A, C).trained()
    form(job.run, [job["a"], job["c"]], [job["b"]], 10.0)
    sent, _, _ = job.taken()
    assert [worker for worker, command in sent if isinstance(command, Leave)] == ["b"]
    joins = {worker: (command.rank, command.world_size) for worker, command in sent if isinstance(command, Join)}
    assert joins == {"a": (0, 2), "c": (1, 2)}
    assert job["b"].retired
    assert isinstance(job.run.state, Forming)
    assert job.run.state.group.warm
    assert job.run.state.pause.since_s == 10.0


def test_a_pause_lasts_from_the_last_group_that_trained_to_the_next() -> None:
    job = Run(A, B).trained()
    start_recovery(job.run, 5.0)
    form(job.run, [job["a"]], [], 7.0)
    assert isinstance(job.run.state, Forming)
    settle(job.run, job.run.state, 9.0)
    (running,) = (event for event in job.taken()[1] if isinstance(event, Running))
    assert (running.pause_s, running.recovered, running.slots) == (4.0, True, (A,))


def test_a_new_rank_0_waits_for_the_outputs_of_the_last_only_where_these_are_handed_over() -> None:
    for hands_over, sent_to in ((True, []), (False, ["b"])):
        job = Run(A, B, hands_over=hands_over).trained()
        job.run.rank_0 = "a"
        form(job.run, [job["b"]], [job["a"]], 1.0)
        assert [worker for worker, command in job.taken()[0] if isinstance(command, Join)] == sent_to


def test_only_those_who_wait_for_a_dead_worker_are_told_to_give_up() -> None:
    job = Run(A, B, C).trained()
    job["b"].broken = 1  # it has noticed
    job["c"].retired = True
    job["a"].stage = Stage.EXITED
    abort_peers(job.run, job["a"])
    assert job.taken()[0] == []
    job["b"].broken, job["c"].retired = 0, False
    abort_peers(job.run, job["a"])
    assert job.taken()[0] == [("b", Abort(1)), ("c", Abort(1))]
    job["a"].outcome = Left(3)
    abort_peers(job.run, job["a"])
    assert job.taken()[0] == [], "nobody waits for one that has left in good order"


def test_whoever_waits_in_a_group_that_forms_gives_up_that_one() -> None:
    job = Run(A, B).trained()
    form(job.run, [job["a"], job["b"]], [], 2.0)
    job.taken()
    abort_peers(job.run, job["a"])
    assert job.taken()[0] == [("b", Abort(2))]


def test_all_that_a_group_loses_counts_once() -> None:
    job = Run(A, B, C).trained()
    for id in ("a", "b"):
        member_lost(job.run, job[id], "was lost")
    assert [event.slot for event in job.taken()[1] if isinstance(event, WorkerLost)] == [A, B]
    assert job.run.budget.recoveries == 1


def test_an_error_is_tried_again_from_the_last_checkpoint_after_a_while_and_then_given_up() -> None:
    job = Run(A, B).trained()
    script_failed(job.run, Crashed("ValueError: 1", "trace"), 10.0, job["a"])
    _, told, killed = job.taken()
    assert (told, killed) == ([Failing("ValueError: 1", 1, "trace")], ["a", "b"])
    assert isinstance(job.run.state, Starting)
    assert job.run.not_before_s == 10.0 + backoff_s(1)
    script_failed(job.run, Crashed("ValueError: 2", "trace"), 20.0)
    (failed,) = (event for event in job.taken()[1] if isinstance(event, JobFailed))
    assert (failed.summary, failed.tries) == ("ValueError: 2", 2)
    assert job.run.ended


@pytest.mark.parametrize(("out_of_memory", "given_up"), [(False, True), (True, False)])
def test_the_same_error_is_the_last_unless_memory_ran_out(out_of_memory: bool, given_up: bool) -> None:
    job = Run(A, max_failures=9).trained()
    for _ in range(2):
        script_failed(job.run, Crashed("RuntimeError: no", "", out_of_memory), 10.0)
    assert job.run.ended is given_up


@pytest.mark.parametrize(
    ("recovering", "ended_first", "state"),
    [(False, "b", Finishing), (False, "a", Finishing), (True, "b", Recovering), (True, "a", Finishing)],
)
def test_the_end_of_a_member_is_the_scripts_but_while_a_step_is_undone_only_rank_0s(
    recovering: bool, ended_first: str, state: type
) -> None:
    job = Run(A, B).trained()
    if recovering:
        start_recovery(job.run, 2.0)
    script_finished(job.run, job[ended_first], Finished(5, metrics={"loss": 1.0}), 3.0)
    assert isinstance(job.run.state, state)


def test_rank_0s_result_is_the_jobs_whoever_ended_first() -> None:
    job = Run(A, B).trained()
    script_finished(job.run, job["b"], Finished(5, metrics={"loss": 2.0}), 3.0)
    script_finished(job.run, job["a"], Finished(5, metrics={"loss": 1.0}), 4.0)
    state: Any = job.run.state
    succeed(job.run, state.group)
    assert JobFinished({"loss": 1.0}) in job.taken()[1]


def test_a_group_that_is_stopped_saves_and_one_that_ends_gives_back_what_nothing_is_in() -> None:
    job = Run(A, B).trained()
    assert isinstance(job.run.state, Training)
    stop(job.run, job.run.state.group, 5.0)
    assert job.taken()[0] == [("a", Stop(save=True)), ("b", Stop(save=True))]
    job.run.desired = (A, B, C)
    end(job.run, JobEnd.CANCELLED)
    _, told, killed = job.taken()
    assert told == [Released(3, (C,))], "the others are given back when their workers are gone"
    assert killed == ["a", "b"]


def test_a_recovery_begins_once_and_only_of_a_group() -> None:
    job = Run(A, B)
    start_recovery(job.run, 1.0)
    assert not isinstance(job.run.state, Recovering)
    job.trained()
    start_recovery(job.run, 2.0, wait_s=7.0)
    before = job.run.state
    assert before == Recovering(Group(1, ("a", "b"), warm=False), Pause(2.0, recovered=True), 9.0)
    start_recovery(job.run, 3.0)
    assert job.run.state is before
