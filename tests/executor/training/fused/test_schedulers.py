"""Each LR scheduler of torch gives each trial of a group the rates that it would have alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from coadapt.executor.training.fused.errors import CannotFuse
from coadapt.executor.training.fused.group import TrialGroup
from coadapt.executor.training.fused.trial_number import TrialNumber
from torch import nn
from torch.optim import lr_scheduler as lrs
from torch.optim.swa_utils import SWALR

LR, FACTOR, WORST = [0.1, 0.02, 0.3], [0.5, 0.9, 0.1], [1.0, 0.8, 2.0]
STEPS, EVENT = 9, 4
Make = Callable[[torch.optim.Optimizer, Any, Any], Any]  # of an optimizer, a rate and a factor
SCHEDULERS: dict[str, Make] = {
    "LambdaLR": lambda o, lr, f: lrs.LambdaLR(o, lambda epoch: 0.9**epoch),
    "MultiplicativeLR": lambda o, lr, f: lrs.MultiplicativeLR(o, lambda epoch: 0.9),
    "StepLR": lambda o, lr, f: lrs.StepLR(o, 2, gamma=f),
    "MultiStepLR": lambda o, lr, f: lrs.MultiStepLR(o, [2, 6, 6], gamma=f),
    "ConstantLR": lambda o, lr, f: lrs.ConstantLR(o, f, total_iters=6),
    "LinearLR": lambda o, lr, f: lrs.LinearLR(o, f, total_iters=6),
    "ExponentialLR": lambda o, lr, f: lrs.ExponentialLR(o, f),
    "PolynomialLR": lambda o, lr, f: lrs.PolynomialLR(o, 8, power=f),
    "CosineAnnealingLR": lambda o, lr, f: lrs.CosineAnnealingLR(o, 7, eta_min=lr * 0.1),
    "CosineAnnealingWarmRestarts": lambda o, lr, f: lrs.CosineAnnealingWarmRestarts(o, 3, 2, eta_min=lr * 0.1),
    "CyclicLR": lambda o, lr, f: lrs.CyclicLR(o, lr, lr * 3, 2, mode="exp_range", gamma=f),
    "CyclicLR in triangles": lambda o, lr, f: lrs.CyclicLR(o, lr, lr * 3, 3, mode="triangular2"),
    "OneCycleLR": lambda o, lr, f: lrs.OneCycleLR(o, lr * 4, total_steps=12, base_momentum=0.5 * f + 0.1),
    "ReduceLROnPlateau": lambda o, lr, f: lrs.ReduceLROnPlateau(o, factor=f, patience=0, threshold=0.05),
    "SequentialLR": lambda o, lr, f: lrs.SequentialLR(
        o, [lrs.LinearLR(o, f, total_iters=3), lrs.StepLR(o, 2, gamma=f), lrs.MultiStepLR(o, [1], f)], [3, 6]
    ),
    "ChainedScheduler": lambda o, lr, f: lrs.ChainedScheduler(
        [lrs.ConstantLR(o, f, total_iters=5), lrs.ExponentialLR(o, 0.9)]
    ),
    "SWALR": lambda o, lr, f: SWALR(o, lr * 0.2, anneal_epochs=6),
    "StepLR of trials at other epochs": lambda o, lr, f: (
        lrs.StepLR(o, 2 + (f > 0.6), gamma=0.3)
        if not isinstance(f, TrialNumber)
        else lrs.StepLR(o, TrialNumber(2 + (one > 0.6) for one in f.values), gamma=0.3)
    ),  # type: ignore[arg-type]
    "SequentialLR of trials at other epochs": lambda o, lr, f: lrs.SequentialLR(
        o, [lrs.ConstantLR(o, 0.5, total_iters=9), lrs.ExponentialLR(o, f)], [_milestone(f)]
    ),
}


def _milestone(factor: Any) -> Any:
    return TrialNumber(map(_milestone, factor.values)) if isinstance(factor, TrialNumber) else 3 + (factor > 0.6)


def made(name: str, lr: Any, factor: Any) -> tuple[Any, Any, nn.Module]:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    return optimizer, SCHEDULERS[name](optimizer, lr, factor), model


def stepped(optimizer: Any, scheduler: Any, steps: range, worst: Any) -> list[Any]:
    found = []
    for at in steps:
        optimizer.step()
        plateau = isinstance(scheduler, lrs.ReduceLROnPlateau)
        scheduler.step(worst / (at + 1 if at < 3 else 4)) if plateau else scheduler.step()
        group = optimizer.param_groups[0]
        found += [group["lr"], scheduler.get_last_lr()[0], group["momentum"]]
    return found


def alone(name: str, trial: int) -> list[float]:
    optimizer, scheduler, _ = made(name, LR[trial], FACTOR[trial])
    return stepped(optimizer, scheduler, range(STEPS), WORST[trial])


def of(values: list[Any], at: int) -> list[float]:
    return [value.of(at) if isinstance(value, TrialNumber) else value for value in values]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_rates_are_those_of_each_trial_alone_also_where_trials_are_dropped_and_put_in_another_order(
    name: str,
) -> None:
    optimizer, scheduler, model = made(name, TrialNumber(LR), TrialNumber(FACTOR))
    group = TrialGroup([model], [optimizer], [scheduler], 3)
    before = stepped(optimizer, scheduler, range(EVENT), TrialNumber(WORST))
    for trial in range(3):
        assert of(before, trial) == pytest.approx(alone(name, trial)[: 3 * EVENT], rel=1e-12)
    group.keep([2, 0])
    after = stepped(optimizer, scheduler, range(EVENT, STEPS), TrialNumber([WORST[2], WORST[0]]))
    for at, trial in enumerate([2, 0]):
        assert of(after, at) == pytest.approx(alone(name, trial)[3 * EVENT :], rel=1e-12)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_trial_goes_on_in_a_group_that_was_made_anew(name: str) -> None:
    optimizer, scheduler, model = made(name, TrialNumber(LR), TrialNumber(FACTOR))
    first = TrialGroup([model], [optimizer], [scheduler], 3)
    stepped(optimizer, scheduler, range(EVENT), TrialNumber(WORST))
    states = [first.state_of(trial) for trial in (1, 0)]
    optimizer, scheduler, model = made(name, TrialNumber(LR[:2]), TrialNumber(FACTOR[:2]))
    TrialGroup([model], [optimizer], [scheduler], 2).become(states)
    after = stepped(optimizer, scheduler, range(EVENT, STEPS), TrialNumber([WORST[1], WORST[0]]))
    for at, trial in enumerate([1, 0]):
        assert of(after, at) == pytest.approx(alone(name, trial)[3 * EVENT :], rel=1e-12)


def test_a_scheduler_keeps_what_it_is_and_what_its_state_is_made_of() -> None:
    optimizer, scheduler, model = made("MultiStepLR", TrialNumber(LR), TrialNumber(FACTOR))
    group = TrialGroup([model], [optimizer], [scheduler], 3)
    group.keep([0, 1])
    assert scheduler.milestones == Counter({2: 1, 6: 2})
    assert isinstance(scheduler, lrs.MultiStepLR)
    assert scheduler.state_dict().keys() == made("MultiStepLR", 0.1, 0.5)[1].state_dict().keys()


def test_milestones_that_differ_are_refused_where_torch_looks_them_up_in_a_table() -> None:
    optimizer, _, _ = made("StepLR", TrialNumber(LR), 0.5)
    with pytest.raises(CannotFuse, match="a key of a dictionary is one number, and trials have 3/5"):
        lrs.MultiStepLR(optimizer, [TrialNumber([3, 5])])  # type: ignore[list-item]
