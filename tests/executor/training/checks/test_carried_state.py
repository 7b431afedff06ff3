"""A hidden state that goes on from one batch to the next is seen, and no other."""

import pytest
import torch
from coadapt.executor.training.checks.carried_state import CarriedState
from torch import nn

LAYERS = [nn.GRU(3, 4, batch_first=True), nn.LSTM(3, 4, batch_first=True), nn.RNN(3, 4, batch_first=True)]


@pytest.fixture
def found() -> list[str]:
    return []


def watched(layer: nn.Module, found: list[str]) -> CarriedState:
    torch.manual_seed(0)
    return CarriedState([layer], found.append)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
@pytest.mark.parametrize("kept", ["detached", "a copy"])
def test_a_state_of_an_earlier_batch_is_seen(layer: nn.Module, kept: str, found: list[str]) -> None:
    state = watched(layer, found)
    _, hidden = layer(torch.randn(2, 5, 3))
    one = hidden if isinstance(hidden, tuple) else (hidden,)
    one = tuple(h.detach() if kept == "detached" else h.detach().clone() for h in one)
    state.begin_part()
    layer(torch.randn(2, 5, 3), one if len(one) > 1 else one[0])
    assert found == [type(layer).__name__]
    layer(torch.randn(2, 5, 3), one if len(one) > 1 else one[0])  # told once
    assert len(found) == 1


def test_a_state_of_the_same_batch_or_a_new_one_is_none(found: list[str]) -> None:
    cell = nn.GRUCell(3, 4)
    state = watched(cell, found)
    for _ in range(3):
        state.begin_part()
        hidden = torch.zeros(2, 4)
        for _ in range(4):
            hidden = cell(torch.randn(2, 3), hidden)
    state.stop()
    assert found == []


def test_nothing_is_looked_at_after_its_end_or_without_recurrent_layers(found: list[str]) -> None:
    gru = nn.GRU(3, 4)
    state = watched(gru, found)
    _, hidden = gru(torch.randn(5, 2, 3))
    state.begin_part()
    state.stop()
    gru(torch.randn(5, 2, 3), hidden)
    assert found == []
    assert not CarriedState([nn.Linear(2, 2)], found.append)._handles
