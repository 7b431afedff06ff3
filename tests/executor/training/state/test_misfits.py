"""A model that a checkpoint does not fit is told by what differs, a few things by name."""

from __future__ import annotations

import pytest
import torch
from coadapt.executor.training.state.misfits import misfit
from torch import nn


def test_nothing_is_said_of_the_same_model() -> None:
    assert misfit([nn.Linear(2, 1)], [nn.Linear(2, 1).state_dict()]) == ""


@pytest.mark.parametrize(
    ("saved", "script", "told"),
    [
        (nn.Linear(2, 1), nn.Linear(3, 1), "weight is 1x2 in the checkpoint and 1x3 in the script"),
        (nn.Linear(2, 1), nn.Linear(2, 1, bias=False), "bias is only in the checkpoint"),
        (nn.Linear(2, 1, bias=False), nn.Linear(2, 1), "bias is only in the script"),
        (
            nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1)),
            nn.Sequential(nn.Linear(2, 5), nn.Linear(5, 1), nn.BatchNorm1d(1)),
            "0.weight is 4x2 in the checkpoint and 5x2 in the script, "
            "0.bias is 4 in the checkpoint and 5 in the script, "
            "1.weight is 1x4 in the checkpoint and 1x5 in the script, and 5 more differ",
        ),
    ],
    ids=["shape", "gone", "new", "many"],
)
def test_what_differs_is_named(saved: nn.Module, script: nn.Module, told: str) -> None:
    assert misfit([script], [saved.state_dict()]) == told


def test_of_several_models_the_number_is_said_too() -> None:
    models = [nn.Linear(2, 1), nn.Linear(2, 1)]
    saved = [nn.Linear(2, 1).state_dict(), {"weight": torch.tensor(1.0)}]
    assert misfit(models, saved) == (
        "model 2: weight is one number in the checkpoint and 1x2 in the script, "
        "model 2: bias is only in the script"
    )
