"""Before a study trains, a few steps of copies tell which layers' activations grow with width."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import torch
from coadapt.executor.training.fused.trial_number import TrialNumber
from coadapt.executor.training.shrunk.trial_steps import TrialSteps
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

DATA = DataLoader(TensorDataset(torch.randn(64, 1, 8, 8), torch.arange(64) % 10), 16, shuffle=True)


class Net(nn.Module):
    """A net with a factor of its own between layers, of some power of the width."""

    def __init__(self, power: float) -> None:
        super().__init__()
        self.power, self.first = power, nn.Conv2d(1, 64, 3)
        self.norm, self.hidden, self.last = nn.BatchNorm2d(64), nn.Conv2d(64, 64, 3), nn.Linear(64 * 16, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.first(x)).relu()
        return self.last(self.hidden(h * h.shape[1] ** self.power).relu().flatten(1))


def steps(power: float, lr: Any = 0.01, trial: int = 0) -> TrialSteps:
    torch.manual_seed(0)
    model = Net(power)
    return TrialSteps(model, torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9), DATA, trial)


@pytest.mark.parametrize("by", [8, 4, 2], ids=str)
def test_a_layer_whose_activations_grow_is_named(by: int) -> None:
    found = steps(0.5).growing(by, budget_s=60.0)
    assert found[0].startswith("activations of layer 'hidden' grow with width, to the power 0.")
    assert not any("'last'" in one for one in found), "what the model returns says little after few steps"


@pytest.mark.parametrize("lr", [0.001, 0.1])
def test_a_model_that_may_be_narrowed_is_no_news(lr: float) -> None:
    assert steps(0.0, lr).growing(8, budget_s=60.0) == []


def test_the_script_s_model_and_its_random_numbers_stay_as_they_are() -> None:
    model = Net(0.5)
    optimizer = torch.optim.Adam(model.parameters())
    before = {name: one.clone() for name, one in model.state_dict().items()}
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    TrialSteps(model, optimizer, DATA).growing(8, budget_s=60.0)
    assert torch.equal(torch.rand(3), expected)
    assert not optimizer.state
    assert not any(module._forward_hooks for module in model.modules())
    for name, one in model.state_dict().items():
        assert torch.equal(one, before[name])


def test_a_trial_of_a_group_has_its_own_rate_and_schedules_begin_at_the_whole_one() -> None:
    lr: Any = TrialNumber([1e9, 0.01])
    assert steps(0.0, lr, trial=1).growing(8, budget_s=60.0) == []
    model = Net(0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    torch.optim.lr_scheduler.LinearLR(optimizer, 0.01)
    assert TrialSteps(model, optimizer, DATA)._optimizer.param_groups[0]["lr"] == 0.25


def test_a_model_that_takes_long_is_left_alone_and_this_is_said() -> None:
    seconds = count(0.0, 10.0)
    (told,) = steps(0.5).growing(8, budget_s=5.0, clock=lambda: next(seconds))
    assert told == "activations: 4 steps of the model take long, so nobody knows whether they grow"


def test_a_first_layer_with_few_channels_is_not_named_by_chance() -> None:
    module = nn.Sequential(
        *(nn.Conv2d(1, 16, 3), nn.GroupNorm(4, 16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)),
    )
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.8)
    images = torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(images, torch.zeros(8)), 8)
    assert TrialSteps(module, optimizer, loader).growing(2, budget_s=60.0) == []
