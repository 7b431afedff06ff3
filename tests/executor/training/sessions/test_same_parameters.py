"""Replicas begin with what replica 0 has: weights, companions, random numbers, and parameters that come later."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.sessions.peers import Peers
from coadapt.executor.training.sessions.same_parameters import SameParameters
from coadapt.executor.training.state.prepared import identify
from coadapt.executor.training.state.training_state import Position
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from tests.support.ranks import on_ranks


class Listed:
    """Stands for `Gradients`: says which parameters were added."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._known = self._held()

    def _held(self) -> list[Tensor]:
        return [p for group in self._optimizer.param_groups for p in group["params"]]

    def parameters_changed(self) -> list[Tensor]:
        known, self._known = self._known, self._held()
        return [p for p in self._known if not any(p is one for one in known)]


class Script:
    """A script whose weights, companion and random numbers are those of its rank."""

    def __init__(self, group: Group) -> None:
        self.group = group
        torch.manual_seed(group.rank)
        random.seed(group.rank)
        np.random.seed(group.rank)  # noqa: NPY002 (the generator that scripts use)
        self.model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        self.model[1].running_mean.fill_(float(group.rank))
        self.teacher = nn.Linear(2, 2).requires_grad_(False)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.zeros(4, 2)), 2)
        prepared = identify([self.model, self.optimizer, loader, self.teacher])
        self.position, peers = Position(), Peers()
        peers.group = group
        self.same = SameParameters(prepared, self.position, Listed(self.optimizer), peers)

    def seen(self) -> list[Any]:
        tensors = [*self.model.state_dict().values(), *self.teacher.state_dict().values()]
        drawn = random.random(), np.random.random()  # noqa: NPY002 (the generator that scripts use)
        return [*(tensor.tolist() for tensor in tensors), *drawn]


@pytest.mark.parametrize(("trained", "alike"), [(0, True), (5, False)], ids=["before", "after the first step"])
def test_replicas_are_made_alike_before_the_first_step_and_not_later(trained: int, alike: bool) -> None:
    def act(group: Group) -> list[Any]:
        script = Script(group)
        script.position.iterations = trained
        script.same.align(group)
        return script.seen()

    first, second = on_ranks(2, act)
    assert (first == second) is alike


def test_what_a_script_sets_after_its_group_began_alike_is_its_own() -> None:
    def act(group: Group) -> list[Any]:
        script = Script(group)
        script.same.align(group)
        with torch.no_grad():
            script.model[0].weight.fill_(float(group.rank))
        script.same.align(group)
        return script.model[0].weight.tolist()

    first, second = on_ranks(2, act)
    assert first != second


def test_parameters_that_an_optimizer_is_given_later_are_taken_from_replica_0_and_so_are_buffers() -> None:
    def act(group: Group) -> list[Any]:
        script = Script(group)
        head = nn.Linear(2, 1)
        script.same.take_in_new()
        script.optimizer.add_param_group({"params": head.parameters()})
        script.same.take_in_new()
        script.same.sync_buffers()
        return [head.weight.tolist(), script.model[1].running_mean.tolist(), script.model[0].weight.tolist()]

    first, second = on_ranks(2, act)
    assert first[:2] == second[:2]
    assert first[1] == [0.0, 0.0]
    assert first[2] != second[2], "the others were not touched"
