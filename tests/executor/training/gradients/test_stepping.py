"""An optimizer step is made where gradients are whole, and not where they were lost on the way."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from coadapt.executor.training.gradients.stepping import EVALUATED_AGAIN, ScaledOptimizers


@dataclass
class Session:
    """A session whose gradients are lost in the backward with this number."""

    lost_in: int = 0
    backwards: int = 0
    asked: list[torch.optim.Optimizer] = field(default_factory=list)
    steps: int = 0
    in_iteration: bool = True

    @property
    def step_happens(self) -> bool:
        return self.backwards != self.lost_in

    def lr_factor(self, optimizer: torch.optim.Optimizer) -> float:
        return 1.0

    def before_step(self, optimizer: torch.optim.Optimizer) -> None:
        pass

    def ask_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.asked.append(optimizer)

    def count_step(self) -> None:
        self.steps += 1


class Twice(torch.optim.SGD):
    """Evaluates its closure a second time before it steps."""

    def step(self, closure: Any = None) -> Any:
        closure()
        return super().step(closure)


def stepped(kind: type[torch.optim.SGD], session: Session) -> float:
    """Return the weight after one step of 0.5 down from 1."""
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = kind([weight], lr=0.5)
    ScaledOptimizers([optimizer], session)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = weight.sum()
        loss.backward()
        session.backwards += 1
        return loss

    assert float(optimizer.step(closure).detach()) == 1.0
    assert session.asked == [optimizer]
    return float(weight.detach())


def test_a_step_with_a_closure_evaluates_it_once_and_is_made() -> None:
    session = Session(lost_in=9)
    assert stepped(torch.optim.SGD, session) == 0.5
    assert (session.backwards, session.steps) == (1, 1)


def test_where_the_closure_s_gradients_are_lost_no_step_is_made() -> None:
    session = Session(lost_in=1)
    assert stepped(torch.optim.SGD, session) == 1.0
    assert session.steps == 0


def test_an_optimizer_may_evaluate_its_closure_again() -> None:
    session = Session(lost_in=9)
    assert stepped(Twice, session) == 0.5
    assert session.backwards == 2
    with pytest.raises(RuntimeError, match=EVALUATED_AGAIN):
        stepped(Twice, Session(lost_in=2))
