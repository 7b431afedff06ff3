"""Parameters have numbers, by which replicas speak of their gradients."""

from __future__ import annotations

import torch
from coadapt.executor.training.gradients.parameter_list import ParameterList, spans_gpus
from torch import Tensor, nn


def filled(*parameters: Tensor) -> ParameterList:
    found = ParameterList(lambda: parameters)
    found.refresh()
    return found


def parameters(count: int) -> list[Tensor]:
    return [nn.Parameter(torch.zeros(2)) for _ in range(count)]


def test_a_parameter_that_is_added_is_told_and_the_others_keep_their_numbers() -> None:
    have = parameters(2)
    found = ParameterList(lambda: have)
    assert found.refresh() == have
    have.append(nn.Parameter(torch.zeros(3)))
    assert found.refresh() == have[2:]
    assert [found.number[parameter] for parameter in have] == [0, 1, 2]
    assert found.refresh() == []


def test_gradients_are_taken_and_put_by_number() -> None:
    a, b = parameters(2)
    found = filled(a, b)
    b.grad = torch.ones(2)
    taken = found.take()
    assert list(taken) == [1]
    assert (a.grad, b.grad, found.gradients) == (None, None, {})
    found.put(taken)
    assert b.grad is taken[1]


def test_a_gradient_is_combined_until_it_is_replaced() -> None:
    (a,) = parameters(1)
    found = filled(a)
    a.grad = torch.ones(2)
    assert not found.is_combined(a)
    found.note_combined()
    assert found.is_combined(a)
    a.grad.mul_(2)
    assert found.is_combined(a), "clipped, and still the same"
    a.grad = a.grad.clone()
    assert not found.is_combined(a)
    a.grad = None
    assert not found.is_combined(a)


def test_a_replica_on_one_device_spans_none() -> None:
    assert not spans_gpus(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    assert not spans_gpus(nn.ReLU())
    assert spans_gpus(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta")))
