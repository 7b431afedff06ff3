"""Settings of optimizers that a script sets by hand are those of each trial."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from coadapt.executor.training.fused.errors import CannotFuse
from coadapt.executor.training.fused.group import TrialGroup
from coadapt.executor.training.fused.trial_number import TrialNumber, TrialSetting
from coadapt.executor.training.fused.trial_tensor import stacked
from torch import nn


def trained(lr: Any, factor: Any, **settings: Any) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(
        [
            {"params": [model.weight], "weight_decay": settings["decay"]},
            {"params": [model.bias], "weight_decay": 0},
        ],
        lr=lr,
        betas=(settings["beta"], 0.99),
    )
    if isinstance(lr, TrialNumber):
        TrialGroup([model], [optimizer], [], 2)
    for at in range(4):
        for group in optimizer.param_groups:
            group["lr"] = lr * factor**at
            group["betas"] = (settings["beta"] * 0.9, 0.98)
        optimizer.zero_grad()
        model(torch.ones(4, 3)).pow(2).mean().backward()
        optimizer.step()
    return model


def test_settings_that_a_script_computes_for_each_step_are_taken() -> None:
    lr, factor, decay, beta = [0.1, 0.03], [0.5, 0.8], [0.0, 0.1], [0.9, 0.5]
    together = trained(TrialNumber(lr), TrialNumber(factor), decay=TrialNumber(decay), beta=TrialNumber(beta))
    for trial in range(2):
        alone = trained(lr[trial], factor[trial], decay=decay[trial], beta=beta[trial])
        for own, other in zip(together.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(stacked(own)[trial], other)


def test_a_script_never_meets_a_setting_that_is_nan_or_counts_as_0_for_some() -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=TrialNumber([0.1, 0.2]), momentum=TrialNumber([0.0, 0.9]))
    TrialGroup([model], [optimizer], [], 2)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    group = optimizer.param_groups[0]
    with pytest.raises(CannotFuse, match="a comparison differs"):
        bool(group["momentum"] == 0)
    with pytest.raises(TypeError):
        json.dumps(group["lr"])


def test_numbers_of_settings_are_settings() -> None:
    number, setting = TrialNumber([1.0, 2.0]), TrialSetting([0.5, 0.0])
    for found in (number * setting, setting * number, setting + 1, 1 - setting):
        assert isinstance(found, TrialSetting)
    assert not isinstance(number * 2, TrialSetting)


def test_dampening_with_a_momentum_of_0_in_one_trial_is_refused_as_torch_has_none_without_momentum() -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=TrialNumber([0.0, 0.9]), dampening=0.5)
    TrialGroup([model], [optimizer], [], 2)
    model(torch.ones(1, 3)).sum().backward()
    with pytest.raises(CannotFuse, match=r"momentum is 0.0/0.9; with dampening it is 0 for all trials or none"):
        optimizer.step()
