"""What an executor makes of the signs of one worker: its deadlines, its end, and whose fault that was."""

from __future__ import annotations

import math

import pytest
from coadapt.executor.protocol.messages import Crashed, Finished, Left
from coadapt.executor.protocol.worker_events import Exited, Gone, Started
from coadapt.executor.reconciling.effects import Effects, KillWorker
from coadapt.executor.reconciling.timeouts import Timeouts
from coadapt.executor.reconciling.worker_state import (
    ProfileWorker,
    Stage,
    TrainingWorker,
    reason_of,
    script_error,
)

from tests.support.simulated_workers import slot

TIMEOUTS = Timeouts(spawn_s=60.0, start_s=300.0, exit_s=30.0)


@pytest.fixture
def worker() -> TrainingWorker:
    found = TrainingWorker("w", slot("n1"))
    found.requested(TIMEOUTS, 0.0)
    return found


def test_each_sign_of_a_worker_gives_it_time_until_the_next(worker: TrainingWorker) -> None:
    assert [worker.is_due(now) for now in (59.9, 60.0)] == [False, True]
    assert worker.overdue == "could not be started in 60 s"
    worker.started(Started(7, "host"), TIMEOUTS, 10.0)
    assert (worker.stage, worker.pid, worker.deadline_s) == (Stage.STARTING, 7, 310.0)
    worker.not_due()
    assert worker.deadline_s == math.inf
    worker.ended_script(Left(5), TIMEOUTS, 400.0)
    assert (worker.deadline_s, worker.overdue) == (430.0, "did not exit")


def test_a_start_that_is_told_late_changes_nothing(worker: TrainingWorker) -> None:
    worker.stage = Stage.READY
    worker.started(Started(7, "host"), TIMEOUTS, 10.0)
    assert (worker.stage, worker.pid) == (Stage.READY, None)


def test_the_first_word_on_how_a_script_ended_counts(worker: TrainingWorker) -> None:
    worker.ended_script(Left(5), TIMEOUTS, 1.0)
    worker.ended_script(Crashed("ValueError: no", ""), TIMEOUTS, 2.0)
    assert worker.outcome == Left(5)


def test_a_worker_is_killed_once_and_nothing_more_is_expected_of_it(worker: TrainingWorker) -> None:
    effects = Effects()
    worker.kill(effects, retire=False)
    assert (worker.killed, worker.retired) == (True, False)
    worker.kill(effects)
    assert effects.take() == [KillWorker("w")]
    assert worker.retired
    worker.due(5.0, "did not exit")
    assert not worker.is_due(1e9)


def test_one_whose_process_is_gone_is_not_killed_and_is_never_due(worker: TrainingWorker) -> None:
    effects = Effects()
    worker.stage = Stage.EXITED
    assert not worker.is_due(1e9)
    worker.kill(effects)
    assert (worker.retired, effects.take()) == (True, [])


def test_steps_never_go_back_and_the_longest_stride_is_remembered(worker: TrainingWorker) -> None:
    for now, steps in enumerate([10, 15, 12, 30], start=1):
        worker.progressed(steps, float(now))
    assert (worker.steps, worker.stride, worker.heard_s) == (30, 15, 4.0)


@pytest.mark.parametrize(
    ("trying", "own", "less"), [(4, 8, True), (8, 8, False), (16, 8, False), (None, 8, False), (4, None, False)]
)
def test_a_profile_run_at_less_than_the_scripts_own_batch_says_so(
    trying: int | None, own: int | None, less: bool
) -> None:
    found = ProfileWorker("w", slot("n1"), trying=trying, initial_batch_size=own)
    assert found.tries_less_than_the_script is less


CRASHED = Crashed("ValueError: no", "Traceback …")


@pytest.mark.parametrize(
    ("outcome", "ending", "summary"),
    [
        (CRASHED, Exited(1), "ValueError: no"),
        (CRASHED, Gone("node lost"), "ValueError: no"),
        (None, Exited(3), "train.py exited with status 3"),
        (None, Exited(0), "train.py ended early, with status 0"),
        (None, Exited(-9), None),
        (None, Gone("node lost"), None),
        (Left(5), Exited(1), None),
        (Finished(5), Exited(1), None),
    ],
)
def test_an_error_is_the_scripts_unless_it_was_killed_lost_or_done(
    worker: TrainingWorker, outcome: Left | Finished | Crashed | None, ending: Exited | Gone, summary: str | None
) -> None:
    worker.outcome = outcome
    found = script_error(worker, ending, "train.py")
    assert (None if found is None else found.summary) == summary


def test_an_end_is_told_in_words_that_follow_the_worker() -> None:
    assert reason_of(Gone("node lost")) == "node lost"
    assert reason_of(Gone()) == "was lost with its worker"
