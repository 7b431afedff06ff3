"""What a batch changes, kept until its end, for scripts that change their model more than once per batch.

The batch is done again from here where a replica is lost between two steps. So it is where a pass is seen to
change parameters whose gradients are not whole yet.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from ..sharding.local import local
from .prepared import Prepared


class StepBackup:
    """Copies of parameters and, with `steps`, of buffers, optimizers, schedulers and scalers."""

    @torch.no_grad()
    def __init__(self, prepared: Prepared, steps: bool = True) -> None:
        self._parameters = [(p, p.detach().clone()) for p in prepared.parameters()]
        self._tensors = [(live, live.detach().clone()) for live in (_others(prepared) if steps else ())]
        self._steps = [(optimizer, _states_of(optimizer)) for optimizer in prepared.optimizers] if steps else []
        schedulers = prepared.schedulers if steps else []
        self._schedules = [(scheduler, copy.deepcopy(scheduler.state_dict())) for scheduler in schedulers]
        self._scales = [(scaler, scaler.state_dict()) for scaler in (prepared.scalers if steps else ())]

    @torch.no_grad()
    def moved(self) -> bool:
        """Return whether parameters differ from what they were."""
        same = ((local(p), local(kept)) for p, kept in self._parameters)
        return not all(torch.allclose(p, kept, rtol=0, atol=0, equal_nan=True) for p, kept in same)

    @torch.no_grad()
    def restore(self) -> None:
        for parameter, kept in self._parameters:
            parameter.data.copy_(kept)  # a script may have replaced it
        for live, kept in self._tensors:
            live.copy_(kept)
        for optimizer, states in self._steps:
            for parameter in [p for p in optimizer.state if p not in states]:
                del optimizer.state[parameter]
            for parameter, values in states.items():
                state = optimizer.state[parameter]
                state.clear()  # a step may have added names
                state.update({name: _copied(value) for name, value in values.items()})
        for scheduler, schedule in self._schedules:
            scheduler.load_state_dict(copy.deepcopy(schedule))
        for scaler, scale in self._scales:
            if scale:  # else it is disabled
                scaler.load_state_dict(scale)


def _others(prepared: Prepared) -> list[Tensor]:
    found = prepared.buffers()
    for optimizer in prepared.optimizers:
        for state in optimizer.state.values():
            found += [value for value in state.values() if isinstance(value, Tensor)]
    return found


def _states_of(optimizer: torch.optim.Optimizer) -> dict[Any, dict[str, Any]]:
    """Return what an optimizer holds for each parameter: its tensors themselves, and copies of everything else."""
    return {
        parameter: {name: _copied(value) for name, value in state.items()}
        for parameter, state in optimizer.state.items()
    }


def _copied(value: Any) -> Any:
    """Return a copy, but a tensor itself, whose content is kept apart, and what cannot be copied."""
    if isinstance(value, Tensor):
        return value
    with suppress(Exception):  # such as a lock, or a generator of a device
        return copy.deepcopy(value)
    return value
