"""Gradients that a script computes by `torch.autograd.grad` and puts into `.grad` itself."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
from coadapt.executor.protocol.messages import Join
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.gradients.gradient_noise import GradientNoise, Preconditioner
from coadapt.executor.training.gradients.gradients import Gradients
from coadapt.executor.training.gradients.noise_meter import NoiseMeter
from coadapt.executor.training.gradients.part_plan import PartPlan
from coadapt.executor.training.gradients.step_timer import StepTimer
from torch import Tensor, nn

from tests.support.breaking_guard import BreakingGuard
from tests.support.ranks import on_ranks

SAMPLES = 8


def gradients_of(model: nn.Module, guard: BreakingGuard) -> Gradients:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    meter = NoiseMeter(GradientNoise(initial_batch_size=SAMPLES), Preconditioner(optimizer))
    timer = StepTimer(torch.device("cpu"))
    return Gradients(lambda: list(model.parameters()), meter, timer, lambda said: None, guard)


def trained_by_hand(gradients: Gradients, model: nn.Linear, x: Tensor, steps: int = 2) -> list[Tensor | None]:
    """Return the gradients after a script's step on the first `steps` parameters."""
    gradients.begin_part(PartPlan(SAMPLES, SAMPLES, copies=2, parts=2, step_samples=SAMPLES))
    parameters = list(model.parameters())
    for parameter, found in zip(
        parameters, torch.autograd.grad(model(x).square().mean(), parameters), strict=True
    ):
        parameter.grad = found if parameter.grad is None else parameter.grad + found
    if steps:
        gradients.before_step(parameters[:steps])
    return [parameter.grad for parameter in parameters]


def in_next_group(gradients: Gradients, group: Group, folder: Path) -> None:
    """Go on in a group of the same replicas."""
    store = dist.FileStore(str(folder / "store"), 2)
    join = Join(2, group.rank, 2, 1, group.rank, 2, "", 0)
    gradients.attach(Group.form(join, torch.device("cpu"), store))


def test_a_batch_whose_combining_failed_is_done_again_once_in_the_next_group(tmp_path: Path) -> None:
    def act(group: Group) -> tuple[bool, bool, list[Tensor | None]]:
        torch.manual_seed(0)
        model, x = nn.Linear(3, 1), torch.randn(SAMPLES, 3)
        gradients = gradients_of(model, BreakingGuard(group))
        gradients.attach(group)
        trained_by_hand(gradients, model, x)
        failed = gradients.undone
        in_next_group(gradients, group, tmp_path)
        found = trained_by_hand(gradients, model, x)
        return failed, gradients.undone, found

    torch.manual_seed(0)
    model, x = nn.Linear(3, 1), torch.randn(SAMPLES, 3)
    wanted = torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
    for failed, fails_again, found in on_ranks(2, act):
        assert failed
        assert not fails_again
        torch.testing.assert_close(tuple(found), wanted)


def test_what_a_script_added_up_by_hand_before_a_batch_that_failed_is_not_lost(tmp_path: Path) -> None:
    def act(group: Group) -> tuple[bool, list[Tensor | None]]:
        torch.manual_seed(0)
        model, x = nn.Linear(3, 1), torch.randn(SAMPLES, 3)
        gradients = gradients_of(model, BreakingGuard(group, times=1))
        gradients.attach(group)
        trained_by_hand(gradients, model, x)
        model.zero_grad()
        trained_by_hand(gradients, model, x, steps=0)
        trained_by_hand(gradients, model, x)
        failed = gradients.undone
        in_next_group(gradients, group, tmp_path)
        return failed, trained_by_hand(gradients, model, x)

    torch.manual_seed(0)
    model, x = nn.Linear(3, 1), torch.randn(SAMPLES, 3)
    once = torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
    for failed, found in on_ranks(2, act):
        assert failed
        torch.testing.assert_close(found, [2 * gradient for gradient in once])


def test_where_combining_failed_a_script_still_finds_gradients_of_other_optimizers() -> None:
    def act(group: Group) -> list[Tensor | None]:
        model, x = nn.Linear(3, 1), torch.ones(SAMPLES, 3)
        gradients = gradients_of(model, BreakingGuard(group))
        gradients.attach(group)
        return trained_by_hand(gradients, model, x, steps=1)

    for weight, bias in on_ranks(2, act):
        assert weight is not None
        assert bias is not None
