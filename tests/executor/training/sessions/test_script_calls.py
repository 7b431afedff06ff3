"""What the script's optimizers and schedulers are told: whether a step happens, and at what rate."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from coadapt.core.training_config import TrainingConfig
from coadapt.executor.training.data.units import Split
from coadapt.executor.training.sessions.loop_state import LoopState
from coadapt.executor.training.sessions.script_calls import ScriptCalls
from coadapt.executor.training.sessions.step_in_hand import StepInHand
from coadapt.executor.training.state.training_state import Position


class Script:
    """A script with two optimizers, in its loop, and everything around it as plain values."""

    def __init__(self, **config: Any) -> None:
        self.parameter = torch.nn.Parameter(torch.zeros(2))
        self.sgd = torch.optim.SGD([self.parameter], lr=0.1)
        self.adam = torch.optim.Adam([self.parameter])
        self.loop = LoopState(Position(), StepInHand(), in_loop=True)
        self.scale = SimpleNamespace(scale=4.0, gain=2.5, step_progress=1.25, split=Split(1, 32))
        self.progress = SimpleNamespace(progress_epochs=3.0, by_progress=True, pass_progress=0.5)
        self.gradients = SimpleNamespace(hidden=False, undone=False, backwards=1)
        self.asked = 0
        watch = SimpleNamespace(step_asked=self._asked, before_backward=lambda: None)
        prepared = SimpleNamespace(optimizers=[self.sgd, self.adam])
        self.calls = ScriptCalls(
            prepared, TrainingConfig.model_validate(config), self.loop, self.scale, self.progress, self.gradients,
            watch, lambda value: value,
        )  # fmt: skip

    def _asked(self) -> None:
        self.asked += 1


def test_each_optimizer_has_the_rule_of_its_kind_and_a_job_may_name_one_for_all() -> None:
    script = Script()
    assert [script.calls.lr_factor(one) for one in (script.sgd, script.adam)] == [2.5, 2.0]
    linear = Script(lr_scaling="linear")
    assert [linear.calls.lr_factor(one) for one in (linear.sgd, linear.adam)] == [4.0, 4.0]


@pytest.mark.parametrize("kept_from", ["hidden", "undone", "void"])
def test_a_step_happens_unless_its_gradients_are_not_whole_or_count_for_nothing(kept_from: str) -> None:
    script = Script()
    assert script.calls.step_happens
    setattr(script.loop.step if kept_from == "void" else script.gradients, kept_from, True)
    assert not script.calls.step_happens


def test_a_step_outside_of_the_loop_is_refused() -> None:
    script = Script()
    script.loop.in_loop = False
    with pytest.raises(RuntimeError, match=r"SGD\.step is called outside of `for … in coadapt\.epochs\(n\)`"):
        script.calls.ask_step(script.sgd)


def test_a_step_in_a_part_that_is_not_the_last_is_noted_and_not_made_yet() -> None:
    script = Script()
    script.loop.partial, script.loop.step.unstepped = True, True
    script.calls.ask_step(script.sgd)
    assert (script.loop.step.asked, script.loop.step.unstepped, script.asked) == (False, True, 0)
    assert list(script.loop.step.asked_of) == [script.sgd]
    script.loop.partial = False
    script.calls.ask_step(script.sgd)
    assert (script.loop.step.asked, script.loop.step.unstepped, script.asked) == (True, False, 1)


def test_a_step_between_two_backwards_needs_batches_in_one_pass() -> None:
    script = Script()
    script.loop.read_by = Split(1, 16, 2)
    assert script.calls.before_backward()
    assert not script.loop.one_pass
    script.calls.ask_step(script.sgd)
    assert not script.calls.before_backward(), "this batch has to be done again"
    assert script.loop.one_pass
    script.loop.read_by = Split(1, 32, 1)
    assert script.calls.before_backward()


@pytest.mark.parametrize(("by_progress", "merged", "place"), [(True, 1, None), (True, 2, 3.0), (False, 2, None)])
def test_a_schedule_goes_by_progress_where_batches_are_merged(
    by_progress: bool, merged: int, place: float | None
) -> None:
    script = Script()
    script.progress.by_progress, script.scale.split = by_progress, Split(1, 32, 1, merged)
    assert script.calls.schedule_place == place
