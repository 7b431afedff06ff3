"""What a script changes beside its model when it is done with a batch: averages, teachers, counters of its own.

A batch that takes several passes, or has to be done again, changes them once too often. Their state before the
batch is kept and put back before it is given again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from .prepared import Prepared
from .script_state import leaves, put, script_objects

# Elements that are kept for every batch of a group, in case that it loses a member.
FEW = 1 << 20


class Beside:
    """The state of all that is not trained itself, before a batch."""

    @torch.no_grad()
    def __init__(self, prepared: Prepared) -> None:
        trained = {id(module) for model in prepared.modules for module in model.modules()}
        modules = [*prepared.companions, *(m for m in script_objects(nn.Module) if id(m) not in trained)]
        self._kept = [(live, live.detach().clone()) for live in _tensors_of(modules)]
        self._places = {
            path: leaf
            for path, leaf in leaves((Tensor,)).items()
            if leaf.value.is_floating_point() and leaf.value.ndim and not leaf.value.requires_grad
        }
        self._kept += [(leaf.value, leaf.value.detach().clone()) for leaf in self._places.values()]
        self._users = [(user, copy.deepcopy(user.state_dict())) for user in prepared.users]

    @torch.no_grad()
    def restore(self) -> None:
        for live, before in self._kept:
            live.copy_(before)
        put({path: leaf.value for path, leaf in self._places.items()}, self._places)
        for user, state in self._users:
            user.load_state_dict(copy.deepcopy(state))


def is_small(prepared: Prepared) -> bool:
    """Whether it costs little to keep everything for each batch."""
    return sum(tensor.numel() for tensor in _tensors_of(prepared.companions)) <= FEW


def _tensors_of(modules: Iterable[nn.Module]) -> list[Tensor]:
    found: dict[int, Tensor] = {}
    for module in modules:
        for tensor in [*module.parameters(), *module.buffers()]:
            found[id(tensor)] = tensor.data if isinstance(tensor, nn.Parameter) else tensor
    return list(found.values())
