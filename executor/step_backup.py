"""What a batch changes, kept until its end: for scripts that step more than once per batch.

Where a replica is lost between two of the steps, the survivors do the whole batch again from here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .prepared import Prepared


class StepBackup:
    """Copies of parameters, buffers and optimizers' tensors; as much memory again."""

    @torch.no_grad()
    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._tensors = [(live, live.detach().clone()) for live in _tensors(prepared)]
        self._steps = [_plain(optimizer) for optimizer in prepared.optimizers]

    @torch.no_grad()
    def restore(self) -> None:
        for live, kept in self._tensors:
            live.copy_(kept)
        for optimizer, states in zip(self._prepared.optimizers, self._steps, strict=True):
            for parameter in [p for p in optimizer.state if p not in states]:
                del optimizer.state[parameter]
            for parameter, values in states.items():
                optimizer.state[parameter].update(values)


def _tensors(prepared: Prepared) -> list[Tensor]:
    found = [parameter.data for parameter in prepared.parameters()] + prepared.buffers()
    for optimizer in prepared.optimizers:
        for state in optimizer.state.values():
            found += [value for value in state.values() if isinstance(value, Tensor)]
    return found


def _plain(optimizer: torch.optim.Optimizer) -> dict[Any, dict[str, Any]]:
    return {
        parameter: {name: value for name, value in state.items() if not isinstance(value, Tensor)}
        for parameter, state in optimizer.state.items()
    }
