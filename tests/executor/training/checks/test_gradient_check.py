"""A batch whose parts bring another gradient than the whole of it is found out; round-off is no difference."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from coadapt.executor.training.checks.gradient_check import COMPARED, MOST_TRIES, GradientCheck
from coadapt.executor.training.state.prepared import Prepared, identify
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

X = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))
Loss = Callable[[Any], Tensor]  # of what the model gives


def prepared(model: nn.Module) -> Prepared:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return identify([model, optimizer, DataLoader(TensorDataset(X), batch_size=16)])


def model_of(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))


def brought_by(check: GradientCheck, model: nn.Module, losses: list[Tensor]) -> None:
    """Have the mean gradient of these losses, and make a step by it."""
    model.zero_grad()
    check.note_losses(losses, len(X) // len(losses), len(X))
    (torch.stack(losses).sum() / len(losses)).backward()
    check.note_gradients()
    check.note_step()


def found(model: nn.Module, loss: Loss) -> str:
    """Return what is found if a batch is given as a whole and then in two parts."""
    check = GradientCheck(prepared(model))
    assert check.is_due()
    check.begin()
    brought_by(check, model, [loss(model(X))])
    assert check.is_comparable()
    check.keep()
    check.begin()
    brought_by(check, model, [loss(model(part)) for part in X.split(8)])
    assert check.is_comparable()
    return check.differs()


SUMS: dict[str, Loss] = {
    "a mean": lambda out: out.square().mean(),
    "a mean of few digits": lambda out: out.to(torch.bfloat16).square().mean().float(),
}
OTHERS: dict[str, Loss] = {
    "a factor of the size": lambda out: out.square().mean() * len(out),
    "a detached statistic": lambda out: (out.square() / out.detach().square().max()).mean(),
    "a root": lambda out: out.square().mean().sqrt(),
    "samples that meet": lambda out: (out - out.mean(0)).square().mean(),
}


@pytest.mark.parametrize("loss", SUMS.values(), ids=SUMS)
def test_a_mean_over_samples_is_no_finding(loss: Loss) -> None:
    assert found(model_of(), loss) == ""


@pytest.mark.parametrize("loss", OTHERS.values(), ids=OTHERS)
def test_what_is_no_mean_over_samples_is_named(loss: Loss) -> None:
    assert found(model_of(), loss).startswith("the gradient of Sequential.")


def test_one_parameter_of_many_is_enough() -> None:
    """A temperature has a small share of all gradients."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.scale = model_of(), nn.Parameter(torch.tensor(0.1))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return 10 * self.body(x), self.scale

    def loss(given: tuple[Tensor, Tensor]) -> Tensor:
        out, scale = given
        return out.square().mean() + scale * out.detach().square().max() / 10

    assert found(Scaled(), loss) == "the gradient of Scaled.scale"


def test_a_single_number_in_a_buffer_is_looked_at() -> None:
    class Largest(nn.Module):
        largest: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.body = model_of()
            self.register_buffer("largest", torch.tensor(0.0))

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.body(x)
            self.largest.copy_(out.detach().sum())
            return out

    assert found(Largest(), lambda out: out.square().mean()) == "Largest.largest"


def test_some_of_the_divided_batches_are_compared() -> None:
    check = GradientCheck(prepared(model_of()))
    due = []
    for number in range(40):
        if check.is_due():
            due.append(number)
            check.end(compared=True)
    assert due == list(COMPARED)


def test_what_cannot_be_compared_is_not_tried_for_ever() -> None:
    check = GradientCheck(prepared(model_of()))
    tried = 0
    for _ in range(40):
        if check.is_due():
            tried += 1
            check.end(compared=False)
    assert tried == MOST_TRIES


def test_statistics_of_a_layer_over_its_batch_cannot_be_compared() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8))
    assert not GradientCheck(prepared(model)).is_due()


def test_a_batch_that_draws_at_random_cannot_be_compared_and_draws_again() -> None:
    check, model = GradientCheck(prepared(model_of())), model_of()
    check.begin()
    before = torch.get_rng_state()
    drawn = torch.rand(3)
    brought_by(check, model, [model(X).square().mean()])
    assert not check.is_comparable()
    check.draw_again()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(torch.rand(3), drawn)


def test_a_gradient_that_is_no_number_is_not_compared() -> None:
    model = model_of()
    check = GradientCheck(prepared(model))
    check.begin()
    brought_by(check, model, [model(X).square().mean() * float("nan")])
    assert not check.is_comparable()
