"""A script gets the numbers of the epochs and steps that are still to do, whoever did the others."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.core.training_config import Count
from coadapt.executor.training.data.loader import IndexedSource
from coadapt.executor.training.sessions.loop_state import LoopState
from coadapt.executor.training.sessions.script_loops import ScriptLoops
from coadapt.executor.training.sessions.script_progress import ScriptProgress
from coadapt.executor.training.sessions.step_in_hand import StepInHand
from coadapt.executor.training.state.training_state import Position

from tests.support.sessions import Script


class Training:
    """Counts passes and steps as a session does; each pass makes `made` epochs of progress."""

    def __init__(self, made: float = 1.0, **position: Any) -> None:
        self.position, self.made = Position(**position), made
        self.loop = LoopState(self.position, StepInHand())
        source = IndexedSource(Script().prepared.loader, lambda epoch: epoch, 4)
        self.progress = ScriptProgress(Count.PROGRESS, self.loop, source)
        self.loops = ScriptLoops(self.loop, self.progress, self)
        self.begun = 0
        self.ended: list[int] = []

    @property
    def completed(self) -> bool:
        return self.progress.completed

    def begin_script(self) -> None:
        self.begun += 1

    def begin_pass(self) -> None:
        pass

    def end_pass(self, epoch: int) -> None:
        self.ended.append(epoch)
        self.position.epoch, self.position.begun = epoch + 1, False
        self.position.epochs_done += self.made

    def begin_script_step(self) -> None:
        pass

    def end_script_step(self) -> None:
        self.position.script_steps += self.made
        self.position.begun = False

    def show(self, progress: float, count: int) -> int:
        return self.progress.show(progress, count)


def test_epochs_are_those_still_to_do_and_each_ends_with_its_pass() -> None:
    assert list(Training().loops.epochs(3)) == [0, 1, 2]
    resumed = Training(epoch=2, epochs_done=2.0, shown=1)
    assert list(resumed.loops.epochs(3)) == [2]
    assert (resumed.begun, resumed.ended) == (1, [2])


def test_a_pass_of_little_progress_is_followed_by_another_one_of_the_same_number_that_equals_nothing() -> None:
    training = Training(made=0.5)
    numbers = list(training.loops.epochs(2))
    assert [int(number) for number in numbers] == [0, 0, 1, 1]
    assert [number in (0, 1) for number in numbers] == [True, False, True, False]


def test_the_script_is_in_its_loop_only_while_it_has_a_number() -> None:
    training = Training()
    for _ in training.loops.epochs(1):
        assert training.loop.in_loop
    assert not training.loop.in_loop


def test_a_loop_that_the_script_leaves_ends_its_training() -> None:
    training = Training()
    for _ in training.loops.epochs(5):
        break
    assert training.position.ended
    assert training.completed


def test_a_second_loop_counts_on_and_one_that_was_over_before_a_restart_is_not_entered() -> None:
    training = Training()
    assert list(training.loops.epochs(2)) == [0, 1]
    assert list(training.loops.epochs(3)) == [0, 1, 2]
    assert (training.position.epoch, training.position.ends, training.loop.epoch_count) == (5, [2.0], 5.0)
    again = Training(epoch=4, epochs_done=4.0, shown=1, ends=[2.0])
    assert list(again.loops.epochs(2)) == []
    assert list(again.loops.epochs(3)) == [2]


def test_an_epoch_that_the_script_left_is_over_before_its_next_loop_begins() -> None:
    training = Training()
    for _ in training.loops.epochs(5):
        break
    assert list(training.loops.epochs(2)) == [0, 1]
    assert training.ended == [0, 1, 2]
    resumed = Training(epoch=2, epochs_done=2.0, shown=0, ends=[1.0])
    assert list(resumed.loops.epochs(5)) == []
    assert list(resumed.loops.epochs(2)) == [1]


def test_a_step_that_the_script_left_is_over_before_its_next_loop_begins() -> None:
    training = Training()
    for _ in training.loops.steps(5):
        break
    assert list(training.loops.steps(2)) == [0, 1]
    assert training.position.script_steps == 3.0


def test_steps_are_counted_by_progress_and_by_no_other_loop() -> None:
    training = Training(made=0.5)
    assert [int(number) for number in training.loops.steps(2)] == [0, 0, 1, 1]
    with pytest.raises(RuntimeError, match="epochs: the script has other loops over both"):
        list(training.loops.epochs(1))
    other = Training()
    list(other.loops.epochs(1))
    with pytest.raises(RuntimeError, match="steps: the script has other loops over both"):
        list(other.loops.steps(1))


@pytest.mark.parametrize(
    ("count", "error", "sentence"),
    [
        (0, ValueError, "epochs: 0; at least 1 is needed"),
        (2.5, TypeError, "epochs: 2.5 is no whole number"),
        (True, TypeError, "epochs: True is no whole number"),
    ],
)
def test_a_number_of_epochs_that_cannot_be_is_named(count: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        list(Training().loops.epochs(count))
