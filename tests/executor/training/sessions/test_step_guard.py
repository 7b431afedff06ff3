"""Words that replicas compare tell whether their learning rates, steps and batches have come apart."""

from __future__ import annotations

import pytest
import torch
from coadapt.executor.training.collective.buckets import GUARDS
from coadapt.executor.training.sessions.loop_state import LoopState
from coadapt.executor.training.sessions.peers import Peers
from coadapt.executor.training.sessions.step_guard import StepGuard
from coadapt.executor.training.sessions.step_in_hand import StepInHand
from coadapt.executor.training.state.prepared import identify
from coadapt.executor.training.state.training_state import Position
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def guard(rate: float = 0.1, steps: int = 7, batch: int = 3) -> StepGuard:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD([{"params": [model.weight]}, {"params": [model.bias], "lr": 1.0}], lr=rate)
    prepared = identify([model, optimizer, DataLoader(TensorDataset(torch.zeros(4, 2)), 2)])
    loop = LoopState(Position(epoch=2, steps=steps, batch=batch), StepInHand())
    return StepGuard(prepared, loop, Peers())


def test_replicas_that_are_alike_have_the_same_words_whose_sums_are_exact() -> None:
    words = guard().words()
    assert words == guard().words()
    assert len(words) == GUARDS
    assert all(0 <= word < 4096 for word in guard(steps=10**6, batch=10**6).words())


@pytest.mark.parametrize(
    ("other", "differing", "sentence"),
    [
        (
            guard(rate=0.1 + 1e-12),
            {0, 1},
            "replicas have different learning rates in batch 3 of epoch 2: 0.1, 1",
        ),
        (guard(steps=8), {2}, "replicas have made different numbers of steps in batch 3 of epoch 2: 8 on 0"),
        (
            guard(batch=4),
            {3},
            "replicas are at different batches: replica 0 is in batch 4 of epoch 2; where",
        ),
    ],
)
def test_what_came_apart_is_named(other: StepGuard, differing: set[int], sentence: str) -> None:
    found = {i for i, (a, b) in enumerate(zip(guard().words(), other.words(), strict=True)) if a != b}
    assert found
    assert found <= differing
    assert other.differs(min(found)).startswith(sentence)


def test_rates_are_those_of_all_groups() -> None:
    assert guard().rates() == [0.1, 1.0]
