"""An optimizer or scheduler of the loop that was not given to prepare is told in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from coadapt.executor.training.checks import left_out
from coadapt.executor.training.checks.left_out import check_schedulers, watch_optimizers
from coadapt.executor.training.state.prepared import Prepared, identify
from torch import nn
from torch.optim.lr_scheduler import ChainedScheduler, SequentialLR, StepLR
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, TensorDataset


class Script:
    def __init__(self, *more: Callable[[torch.optim.Optimizer], Any]) -> None:
        self.model = nn.Linear(2, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.more = [make(self.optimizer) for make in more]
        loader = DataLoader(TensorDataset(torch.zeros(4, 2)), 2)
        self.prepared: Prepared = identify([self.model, self.optimizer, loader, *self.more])


# --- schedulers ----------------------------------------------------------------------------------------------


def test_a_scheduler_that_was_not_given_is_named() -> None:
    script = Script()
    scheduler = StepLR(script.optimizer, 1)
    with pytest.raises(RuntimeError, match="the script's StepLR was not given to prepare, and would lose"):
        check_schedulers(script.prepared)
    assert scheduler.last_epoch == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda optimizer: StepLR(optimizer, 1),
        lambda optimizer: ChainedScheduler([StepLR(optimizer, 1), StepLR(optimizer, 2)]),
        lambda optimizer: SequentialLR(optimizer, [StepLR(optimizer, 1), StepLR(optimizer, 2)], [3]),
    ],
)
def test_one_that_was_given_is_fine_and_so_are_those_that_it_holds(
    make: Callable[[torch.optim.Optimizer], Any],
) -> None:
    script = Script(make)
    held = getattr(script.more[0], "_schedulers", [])
    check_schedulers(script.prepared)
    assert isinstance(held, list | tuple)


def test_a_scheduler_of_another_optimizer_is_the_scripts_own_affair() -> None:
    script, other = Script(), Script()
    scheduler = StepLR(other.optimizer, 1)
    check_schedulers(script.prepared)
    assert scheduler.last_epoch == 0


# --- optimizers ----------------------------------------------------------------------------------------------


class Watched:
    """A script whose optimizers are watched; `number` is that of the running batch."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.number: int | None = None  # outside of the loop
        watch_optimizers(script.prepared, lambda: self.number)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    handles: list[Any] = []
    register = register_optimizer_step_pre_hook
    monkeypatch.setattr(left_out, "register_optimizer_step_pre_hook", lambda look: handles.append(register(look)))
    yield Watched(Script())
    for handle in handles:
        handle.remove()


def test_a_prepared_optimizer_and_one_around_it_may_step(watched: Watched) -> None:
    class Around(torch.optim.Optimizer):
        def __init__(self, inner: torch.optim.Optimizer) -> None:
            super().__init__(inner.param_groups, {})
            self.inner = inner

        def step(self, closure: Any = None) -> None:
            self.inner.step()

    around = Around(watched.script.optimizer)
    watched.number = 1
    for watched.number in (1, 2):
        watched.script.optimizer.step()
        around.step()


def test_one_that_steps_parameters_of_the_prepared_model_is_named_at_once(watched: Watched) -> None:
    stray = torch.optim.Adam(watched.script.model.parameters())
    stray.step()  # before the loop nobody minds
    watched.number = 1
    with pytest.raises(RuntimeError, match="the script's Adam was not given to prepare, and steps parameters of"):
        stray.step()


def test_one_with_a_model_of_its_own_is_named_in_its_second_batch(watched: Watched) -> None:
    stray = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    watched.number = 1
    stray.step()
    stray.step()
    watched.number = 2
    with pytest.raises(RuntimeError, match="the script's SGD and what it trains were not given to prepare"):
        stray.step()


def test_one_that_is_made_for_each_batch_may_train_what_is_made_for_it(watched: Watched) -> None:
    for watched.number in (1, 2, 3):
        torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1).step()
