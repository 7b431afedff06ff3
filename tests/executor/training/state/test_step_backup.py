"""A batch that is done again begins with model, optimizer and schedule exactly as they were before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from coadapt.executor.training.state.prepared import Prepared, identify
from coadapt.executor.training.state.step_backup import StepBackup
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class ByHand(torch.optim.Optimizer):
    """As people write them: a step replaces the momentum, and appends to a history that starts late."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                before = state.get("momentum", torch.zeros_like(parameter))
                state["momentum"] = 0.9 * before + parameter.grad
                state["steps"] = state.get("steps", 0) + 1
                if state["steps"] > 2:
                    state.setdefault("history", []).append(float(state["momentum"].sum()))
                parameter -= group["lr"] * state["momentum"]


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd with momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.1, amsgrad=True),
    "one written by hand": ByHand,
}


class Script:
    """A small model that is trained step by step, always on the same data."""

    def __init__(self, optimizer: Callable[[Any], torch.optim.Optimizer]) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        self.optimizer = optimizer(self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.data = torch.randn(16, 3)
        loader = DataLoader(TensorDataset(self.data), 16)
        self.prepared: Prepared = identify([self.model, self.optimizer, self.scheduler, loader])

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.model(self.data).pow(2).mean().backward()
            self.optimizer.step()

    def state(self) -> list[Any]:
        """Return everything, as plain values."""
        return [
            [tensor.tolist() for tensor in self.model.state_dict().values()],
            plain(self.optimizer.state_dict()["state"]),
            self.scheduler.state_dict()["last_epoch"],
        ]


def plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
@pytest.mark.parametrize("done", [0, 2, 3], ids=["before the first step", "after two", "after three"])
def test_all_is_as_it_was_however_often_it_is_put_back(
    optimizer: Callable[[Any], torch.optim.Optimizer], done: int
) -> None:
    script = Script(optimizer)
    script.train(done)
    before, backup = script.state(), StepBackup(script.prepared)
    for steps in (2, 1):
        script.train(steps)
        script.scheduler.step()
        assert script.state() != before
        backup.restore()
        assert script.state() == before


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_a_step_that_is_repeated_ends_where_it_did(optimizer: Callable[[Any], torch.optim.Optimizer]) -> None:
    script = Script(optimizer)
    script.train(3)
    backup = StepBackup(script.prepared)
    script.train(2)
    once = script.state()
    backup.restore()
    script.train(2)
    assert script.state() == once


def test_parameters_alone_are_put_back_where_no_step_is_made() -> None:
    script = Script(OPTIMIZERS["adam"])
    backup = StepBackup(script.prepared, steps=False)
    assert not backup.moved()
    before = [parameter.tolist() for parameter in script.model.parameters()]
    script.train(1)
    assert backup.moved()
    backup.restore()
    assert [parameter.tolist() for parameter in script.model.parameters()] == before
    assert script.optimizer.state, "the optimizer's state is not part of it"


def test_parameters_that_are_not_finite_have_not_moved_by_themselves() -> None:
    script = Script(OPTIMIZERS["adam"])
    with torch.no_grad():
        script.model[0].weight.fill_(float("nan"))
    backup = StepBackup(script.prepared)
    assert not backup.moved()


def test_a_parameter_whose_data_the_script_has_replaced_is_put_back_too() -> None:
    script = Script(OPTIMIZERS["adam"])
    weight = script.model[0].weight
    before, backup = weight.tolist(), StepBackup(script.prepared)
    weight.data = torch.zeros_like(weight)
    backup.restore()
    assert script.model[0].weight.tolist() == before
