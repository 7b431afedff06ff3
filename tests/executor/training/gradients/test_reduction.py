"""Gradients are summed over all replicas: of whatever any of them reached, once, and only where all are alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from coadapt.executor.protocol.messages import Join
from coadapt.executor.training.collective.group import Disagreement, Group
from coadapt.executor.training.data.units import Split
from coadapt.executor.training.gradients import backward
from coadapt.executor.training.gradients.gradients import Gradients
from coadapt.executor.training.gradients.part_plan import PartPlan
from torch import Tensor
from torch.nn import functional as F

from tests.support.breaking_guard import BreakingGuard
from tests.support.gradient_runs import (
    SAMPLES,
    Backward,
    Model,
    alone,
    check,
    data,
    gradients_of,
    grads,
    in_parts,
    of,
    on_all,
    two_backwards,
)
from tests.support.ranks import on_ranks

CROSS_ENTROPY = of(lambda model, x, y: F.cross_entropy(model(x), y))


def test_parameters_that_only_some_replicas_reach_are_combined_and_those_that_none_does_stay_without() -> None:
    def act(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
        inside = torch.tanh(model.inside(x))
        rows = (y == 0).float().unsqueeze(1)
        loss = (model.head(inside) * (1 - rows)).sum()
        if rows.any():
            loss = loss + (model.aside(inside) * rows).sum()
        loss.backward()

    check(on_all(3, 2, act), alone(act))
    check(on_all(2, 2, CROSS_ENTROPY), alone(CROSS_ENTROPY))
    assert alone(CROSS_ENTROPY)[-1] is None


def test_parameters_that_are_unfrozen_later_are_combined() -> None:
    def act(gradients: Gradients, model: Model, x: Tensor, y: Tensor) -> None:
        batch = getattr(model, "seen", 0)
        model.head.requires_grad_(batch > 1)
        model.zero_grad()
        model.loss(x, y).backward()
        model.seen = batch + gradients.hidden * 0 + 1

    check(on_all(2, 1, act, batches=3), alone(act, batches=3))


class Words:
    """A guard whose first word is what it is given."""

    def __init__(self, word: int) -> None:
        self._word = word

    def words(self) -> Sequence[int]:
        return [self._word, 0, 0, 4095]

    def differs(self, word: int) -> str:
        return f"word {word} is {self._word} here"


@pytest.mark.parametrize("words", [(7, 7), (7, 8), (0, 4095), (1, 3)])
def test_what_must_be_alike_on_all_replicas_is_compared_whenever_gradients_are(words: tuple[int, int]) -> None:
    def act(group: Group) -> str:
        model = Model()
        gradients = gradients_of(model, group, guard=Words(words[group.rank]))
        try:
            in_parts(gradients, model, CROSS_ENTROPY, Split(2, SAMPLES), group, data())
        except Disagreement as told:
            return str(told)
        return ""

    told = on_ranks(2, act)
    assert told == (["", ""] if words[0] == words[1] else [f"word 0 is {word} here" for word in words])


def after_a_loss(tmp_path: Path, act: Backward, batches: int, last: int) -> list[Any]:
    """Gradients that two replicas accumulate over batches, of which the last is done again in another group."""

    def train(group: Group) -> tuple[list[Tensor | None], int]:
        model = Model()
        gradients, (x, y) = gradients_of(model, group, guard=BreakingGuard(group, last - 1)), data()
        (part,) = Split(2, SAMPLES, 1).parts(SAMPLES, group.rank)
        plan = PartPlan(part.samples, SAMPLES, part.copies, 1, 2, SAMPLES)
        for _ in range(batches):
            gradients.begin_part(plan)
            act(gradients, model, part.of(x), part.of(y))
        assert gradients.undone
        store = dist.FileStore(str(tmp_path / "store"), 2)
        join = Join(2, group.rank, 2, 1, group.rank, 2, "", 0)
        gradients.attach(Group.form(join, torch.device("cpu"), store))
        gradients.begin_part(plan)
        act(gradients, model, part.of(x), part.of(y))
        backward.watch(None)
        assert not gradients.undone
        return grads(model), 1

    return on_ranks(2, train)


@pytest.mark.parametrize(("batches", "last"), [(1, 1), (1, 2), (2, 3), (2, 4)])
def test_a_group_that_breaks_in_any_backward_has_nothing_counted_twice(
    tmp_path: Path, batches: int, last: int
) -> None:
    check(after_a_loss(tmp_path, two_backwards, batches, last), alone(two_backwards, batches))
