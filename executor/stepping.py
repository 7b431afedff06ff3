"""How the script's optimizers, LR schedulers and gradient scalers behave inside an adapted step.

A script calls `backward`, `step`, … once per micro-batch. Here each of these calls finds out whether an
optimizer step really happens at this micro-batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


class Stepping(Protocol):
    """What the session says of the running micro-batch."""

    @property
    def schedule_credit(self) -> list[float]:
        """Advances owed to each scheduler."""

    @property
    def in_iteration(self) -> bool:
        """Between two micro-batches of the training loader."""

    @property
    def step_happens(self) -> bool:
        """This micro-batch ends an optimizer step, and its gradients are whole."""

    @property
    def gain(self) -> float:
        """Progress of this step in steps of the initial batch size."""

    def lr_factor(self, optimizer: torch.optim.Optimizer) -> float: ...

    def count_step(self) -> None: ...


class ScaledOptimizers:
    """Multiplies the learning rates for the length of each `optimizer.step()` and counts the steps."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer], stepping: Stepping) -> None:
        self._stepping = stepping
        self._own: dict[int, list[Any]] = {}
        for optimizer in optimizers:
            optimizer.register_step_pre_hook(self._before)
            optimizer.register_step_post_hook(self._after)

    def _before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if kwargs.get("closure") is not None or any(callable(value) for value in args):
            raise RuntimeError(
                f"{type(optimizer).__name__}.step was given a closure; compute loss and gradients in the loop"
            )
        if not self._stepping.step_happens:
            return
        factor = self._stepping.lr_factor(optimizer)
        if factor == 1.0:
            return
        self._own[id(optimizer)] = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * factor

    def _after(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        for group, rate in zip(optimizer.param_groups, self._own.pop(id(optimizer), []), strict=False):
            group["lr"] = rate
        if self._stepping.step_happens:
            self._stepping.count_step()


def adapt_scheduler(scheduler: Any, index: int, stepping: Stepping) -> None:
    """Make a scheduler that is stepped per iteration advance with progress instead of with micro-batches.

    Inside the training loop a finished step advances it by the step's gain, in whole steps with the rest
    carried over, so that a schedule made for the initial batch size ends where it should. Outside of it (per
    epoch) nothing changes.
    """
    kind = type(scheduler)

    def step(self: Any, *args: Any, **kwargs: Any) -> None:
        if not stepping.in_iteration:
            kind.step(self, *args, **kwargs)
        elif stepping.step_happens:
            credit = stepping.schedule_credit[index] + stepping.gain
            advances = math.floor(credit + 1e-9)
            stepping.schedule_credit[index] = credit - advances
            for _ in range(advances):
                kind.step(self, *args, **kwargs)

    # A subclass and not an attribute: a scheduler's state_dict is its __dict__.
    scheduler.__class__ = type(kind.__name__, (kind,), {"step": step, "__module__": kind.__module__})


def adapt_scaler(scaler: torch.amp.GradScaler, stepping: Stepping) -> None:
    """Let a gradient scaler rest at micro-batches that end no step, which leave it no gradients to look at."""
    kind = type(scaler)

    def rests() -> bool:
        return stepping.in_iteration and not stepping.step_happens

    def unscale_(self: Any, optimizer: torch.optim.Optimizer) -> None:
        if not rests():
            kind.unscale_(self, optimizer)

    def step(self: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
        return None if rests() else kind.step(self, optimizer, *args, **kwargs)

    def update(self: Any, new_scale: float | Tensor | None = None) -> None:
        if not rests():
            kind.update(self, new_scale)

    members = {"unscale_": unscale_, "step": step, "update": update, "__module__": kind.__module__}
    scaler.__class__ = type(kind.__name__, (kind,), members)
