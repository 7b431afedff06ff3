"""How far a training is, in the epochs and steps of its script, and which number the script is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from coadapt.core.reports import MeasuredAt
from coadapt.core.training_config import Count
from coadapt.executor.training.sessions.loop_state import LoopState
from coadapt.executor.training.sessions.script_progress import ScriptProgress
from coadapt.executor.training.sessions.step_in_hand import StepInHand
from coadapt.executor.training.state.training_state import Position


@dataclass
class Data:
    size: int | None = 100


def progress_of(
    count: Count = Count.PROGRESS,
    size: int | None = 100,
    epochs: float | None = 5,
    steps: float | None = None,
    **position: Any,
) -> ScriptProgress:
    loop = LoopState(Position(**position), StepInHand(), epoch_count=epochs, step_count=steps, in_loop=True)
    return ScriptProgress(count, loop, Data(size))


@pytest.mark.parametrize(
    ("asked", "completed"),
    [
        ({"epochs_done": 4.9}, False),
        ({"epochs_done": 5 - 1e-7}, True),  # sums of parts of passes
        ({"epochs_done": 1.0, "epoch": 5}, False),
        ({"count": Count.PASSES, "epochs_done": 9.0, "epoch": 4}, False),
        ({"count": Count.PASSES, "epochs_done": 1.0, "epoch": 5}, True),
        ({"epochs_done": 1.0, "target_reached": True}, True),
        ({"epochs_done": 1.0, "ended": True}, True),
        ({"epochs": None, "steps": 10, "script_steps": 9.0}, False),
        ({"epochs": None, "steps": 10, "script_steps": 10 - 1e-9, "epochs_done": 0.0}, True),
        ({"epochs": None, "epochs_done": 99.0}, False),
    ],
)
def test_a_training_is_complete_by_what_its_script_counts(asked: dict[str, Any], completed: bool) -> None:
    assert progress_of(**asked).completed is completed


def test_the_running_pass_counts_by_its_samples() -> None:
    found = progress_of(epoch=3, epochs_done=2.5, pass_samples=50, pass_progress=25.0)
    assert (found.progress_epochs, found.passes_done) == (2.75, 3.5)
    over = progress_of(epoch=3, epochs_done=2.5, pass_samples=500, pass_progress=500.0)
    assert (over.progress_epochs, over.passes_done) == (3.5, 4.0), "a pass is one at most"


@pytest.mark.parametrize("position", [{"size": None}, {"loop": 1}])
def test_where_a_pass_has_no_size_or_was_had_it_counts_when_it_is_over(position: dict[str, Any]) -> None:
    found = progress_of(**position, epoch=3, epochs_done=2.5, pass_samples=50, pass_progress=25.0)
    assert (found.progress_epochs, found.passes_done) == (2.5, 3.0)


def test_metrics_are_of_the_epoch_under_way_and_at_the_end_of_the_last() -> None:
    assert progress_of(epochs_done=2.5, samples=700).here == MeasuredAt(3, 700)
    assert progress_of(epochs_done=5.0, samples=900).here == MeasuredAt(5, 900)
    assert progress_of(epochs=None, epochs_done=7.0).here.epoch == 8


def test_where_it_is_can_be_told_in_words() -> None:
    assert progress_of(epochs_done=2.5, begun=True).where == "epoch 3 of 5"
    assert progress_of(epochs=None, steps=10, script_steps=4.5).where == "step 4 of 10"


def test_a_script_is_given_each_number_once_and_one_that_it_had_equals_nothing() -> None:
    found = progress_of()
    first = found.show(0.0, 5)
    again = found.show(0.4, 5)
    assert (first, type(first)) == (0, int)
    assert again != 0
    assert int(again) == 0


def next_number(found: ScriptProgress, progress: float) -> int:
    found._position.begun = False  # as after a pass that is over
    return found.show(progress, 5)


def test_passes_that_make_little_progress_share_a_number_and_the_last_one_is_never_exceeded() -> None:
    found = progress_of()
    assert [int(next_number(found, at)) for at in (0.0, 0.5, 1 - 1e-7, 3.2, 9.9)] == [0, 0, 1, 3, 4]
    assert next_number(found, 9.9) != 4, "a second time"


def test_a_number_in_whose_midst_a_process_comes_in_is_due_with_its_first_batch() -> None:
    found = progress_of(begun=True, shown=3)
    number = found.show(3.4, 5)
    assert number != 3, "what the script does at the beginning of epoch 3 was done"
    found._loop.batches_here = 1
    assert number == 3
