"""A state arrives on every rank as it was sent: structure, tensors of any type, and what tensors cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from coadapt.executor.training.collective.broadcast import broadcast_state
from torch import Tensor, nn


class Wire:
    """A group of two in which rank 0 sends and rank 1 receives, in the same order."""

    device = torch.device("cpu")

    def __init__(self, sent: list[Any] | None = None) -> None:
        self.sent: list[Any] = [] if sent is None else sent
        self._receives = sent is not None

    def broadcast_ints(self, values: Sequence[int], source: int) -> list[int]:
        if self._receives:
            return self.sent.pop(0)
        self.sent.append(list(values))
        return list(values)

    def broadcast_tensors(self, tensors: Sequence[Tensor], source: int) -> None:
        if self._receives:
            for mine, theirs in zip(tensors, self.sent.pop(0), strict=True):
                assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
                mine.copy_(theirs)
        else:
            self.sent.append([tensor.clone() for tensor in tensors])


def over(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state as it arrives."""
    sender = Wire()
    assert broadcast_state(sender, state, 0) is state
    receiver = Wire(sender.sent)
    found = broadcast_state(receiver, None, 0)
    assert receiver.sent == []
    return found


def test_structure_and_tensors_arrive() -> None:
    state = {
        "model": {"w": torch.randn(3, 4), "steps": torch.tensor(5)},
        "list": [torch.ones(2, dtype=torch.bfloat16), (1, "x", None)],
        "empty": torch.empty(0, 3),
    }
    found = over(state)
    assert torch.equal(found["model"]["w"], state["model"]["w"])
    assert found["model"]["steps"].item() == 5
    assert torch.equal(found["list"][0], state["list"][0])
    assert found["list"][1] == (1, "x", None)
    assert found["empty"].shape == (0, 3)


def test_a_state_of_nothing_arrives() -> None:
    assert over({}) == {}


def test_parameters_and_views_arrive_as_tensors_of_their_content() -> None:
    weight = nn.Parameter(torch.randn(4, 4))
    found = over({"weight": weight, "row": weight.detach()[:, 1]})
    assert torch.equal(found["weight"], weight.detach())
    assert not found["weight"].requires_grad
    assert torch.equal(found["row"], weight.detach()[:, 1])


def test_tensors_that_are_no_plain_memory_travel_with_the_structure() -> None:
    sparse = torch.eye(3).to_sparse()
    assert torch.equal(over({"sparse": sparse})["sparse"].to_dense(), torch.eye(3))


def test_nobody_waits_for_the_content_of_a_tensor_that_is_sent_twice() -> None:
    shared = torch.arange(3)
    found = over({"a": shared, "b": shared})
    assert torch.equal(found["a"], found["b"])
