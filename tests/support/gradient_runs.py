"""A small model trained in parts, alone or on several replicas, and the gradients that come of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.data.units import Split
from coadapt.executor.training.gradients import backward
from coadapt.executor.training.gradients.gradient_noise import GradientNoise, Preconditioner
from coadapt.executor.training.gradients.gradients import Gradients
from coadapt.executor.training.gradients.noise_meter import NoiseMeter
from coadapt.executor.training.gradients.part_plan import PartPlan
from coadapt.executor.training.gradients.step_timer import StepTimer
from coadapt.executor.training.losses.loss_kind import Kind
from torch import Tensor, nn
from torch.nn import functional as F

from tests.support.ranks import on_ranks

SAMPLES, CLASSES = 13, 3  # that no number of parts divides
Backward = Callable[[Gradients, "Model", Tensor, Tensor], None]


class Model(nn.Module):
    """A small model with a layer that only some samples reach."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inside = nn.Linear(7, 8)
        self.head = nn.Linear(8, CLASSES)
        self.aside = nn.Linear(8, CLASSES)  # that only some samples reach

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inside(x)))

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(self(x), F.one_hot(y, CLASSES).float())


def data() -> tuple[Tensor, Tensor]:
    """Return samples and their classes, always the same."""
    generator = torch.Generator().manual_seed(1)
    y = torch.randint(0, CLASSES, (SAMPLES,), generator=generator)
    return torch.randn(SAMPLES, 7, generator=generator), y


def gradients_of(
    model: Model, group: Group | None = None, loss: Kind = Kind.UNKNOWN, guard: Any = None
) -> Gradients:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    meter = NoiseMeter(GradientNoise(initial_batch_size=SAMPLES), Preconditioner(optimizer))
    parameters = lambda: list(model.parameters())  # noqa: E731
    found = Gradients(parameters, meter, StepTimer(torch.device("cpu")), lambda said: None, guard, loss)
    found.attach(group) if group is not None else found.parameters_changed()
    backward.watch(found)
    return found


def in_parts(
    gradients: Gradients, model: Model, act: Backward, split: Split, group: Group | None, batch: Any
) -> int:
    """Train on one batch, again as long as it has to be done again; return how often it was done."""
    x, y = batch
    rank = group.rank if group is not None else 0
    for tries in range(1, 6):
        weights = gradients.weights
        whole = weights.whole or weights.trial
        now = Split(split.replicas, len(x), 1 if weights.undivided else split.passes, least=len(x) if whole else 1)
        parts = now.parts(len(x), rank)
        count = now.replicas * len(parts)
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            plan = PartPlan(part.samples, len(x), part.copies, 1, count, len(x), visible=last, last=last)
            gradients.begin_part(plan)
            act(gradients, model, part.of(x), part.of(y))
            if gradients.undone:
                break
        else:
            return tries
    raise AssertionError("done again and again")


def grads(model: nn.Module) -> list[Tensor | None]:
    """Return copies of a model's gradients."""
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def alone(act: Backward, batches: int = 1) -> list[Tensor | None]:
    """Return the gradients of the plain script; `act` may call what does nothing there."""
    backward.watch(None)
    model, (x, y) = Model(), data()
    plain = gradients_of(model)
    backward.watch(None)
    for _ in range(batches):
        plain.begin_part(PartPlan(len(x), len(x)))
        act(plain, model, x, y)
    return grads(model)


def on_all(replicas: int, passes: int, act: Backward, batches: int = 1, loss: Kind = Kind.UNKNOWN) -> list[Any]:
    """Return (gradients, times the last batch was done) of each replica."""

    def train(group: Group | None) -> tuple[list[Tensor | None], int]:
        model = Model()
        gradients = gradients_of(model, group, loss)
        split = Split(replicas, SAMPLES, passes)
        tries = [in_parts(gradients, model, act, split, group, data()) for _ in range(batches)]
        backward.watch(None)
        return grads(model), tries[-1]

    return on_ranks(replicas, train) if replicas > 1 else [train(None)]


def check(found: Sequence[Any], wanted: Sequence[Tensor | None]) -> None:
    """Check that all replicas have the gradients that are wanted."""
    for mine, _ in found:
        for gradient, plain in zip(mine, wanted, strict=True):
            if plain is None:
                assert gradient is None
            else:
                torch.testing.assert_close(gradient, plain, rtol=2e-5, atol=2e-6)


def of(loss: Callable[[Model, Tensor, Tensor], Tensor]) -> Backward:
    """Return a script's backward of one loss."""
    return lambda gradients, model, x, y: loss(model, x, y).backward()


def two_backwards(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
    """Make two backwards of one batch."""
    model.loss(x, y).backward()
    model.head(torch.tanh(model.inside(x))).square().sum().backward()
