"""Adapts the script's optimizers, LR schedulers and gradient scalers to steps of several passes and replicas.

A script calls `backward`, `step`, … for each of its batches, and for each pass of one. Each of these calls finds
out here whether an optimizer step really happens now.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from . import backward

STEP_IN_BACKWARD = (
    "an optimizer steps while gradients are being computed, as in a hook of a parameter; those of all replicas "
    "are there after backward, so call optimizer.step() then"
)
EVALUATED_AGAIN = (
    "an optimizer evaluates its closure again in a step, for which the batch has to be one pass on each replica; "
    "the training goes on from its last checkpoint"
)


class Stepping(Protocol):
    """Answers what optimizers and schedulers ask of the session about the running batch."""

    @property
    def batch_key(self) -> tuple[int, int, int]:
        """The number of the batch, as a key."""

    @property
    def in_iteration(self) -> bool:
        """Whether the script is between two batches of the training loader."""

    @property
    def step_happens(self) -> bool:
        """Whether a step that the script makes now is made; else its gradients are kept back, or were lost."""

    @property
    def partial(self) -> bool:
        """Whether this is a pass before the last of its batch."""

    @property
    def step_progress(self) -> float:
        """What one step of the script counts for, of those that make the running optimizer step: 1 at most."""

    @property
    def pass_progress(self) -> float:
        """Progress of the last pass over the data, in epochs at the initial batch size."""

    @property
    def schedule_credit(self) -> list[float]:
        """Advances owed to each scheduler."""

    @property
    def schedule_calls(self) -> list[int]:
        """Steps of each scheduler that the script has asked for since the last optimizer step that happened."""

    @property
    def schedule_place(self) -> float | None:
        """Epochs of progress so far, for schedulers that are told where they are; None: the script tells them."""

    def lr_factor(self, optimizer: torch.optim.Optimizer) -> float: ...

    def ask_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Note that the script makes a step, whether it happens or not."""

    def before_step(self, optimizer: torch.optim.Optimizer) -> None: ...

    def count_step(self) -> None: ...

    def combined(self, value: float) -> float:
        """Return the mean of a replica's value over all of them."""


class ScaledOptimizers:
    """Makes steps only where they happen, scales the learning rate of each for its batch size, and counts them."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer], stepping: Stepping) -> None:
        self._stepping = stepping
        self._own: dict[int, list[Any]] = {}
        for optimizer in optimizers:
            optimizer.register_step_pre_hook(self._before)
            optimizer.register_step_post_hook(self._after)
            # It is a method, as schedulers that are made later expect.
            asked = types.MethodType(self._asked(optimizer, optimizer.step), optimizer)
            optimizer.step = asked  # type: ignore[method-assign]
            # Only this optimizer is changed: others of its class add their groups as before.
            optimizer.add_param_group = self._once(optimizer.add_param_group)  # type: ignore[method-assign,assignment]

    def _once(self, add: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
        """Add a batch's groups of parameters once, though the batch is given again or in several passes."""
        added: dict[frozenset[int], Any] = {}

        @functools.wraps(add)
        def once(param_group: dict[str, Any]) -> None:
            given = param_group["params"]
            group = {**param_group, "params": [given] if isinstance(given, Tensor) else list(given)}
            key = frozenset(map(_id_of, group["params"]))
            if not self._stepping.in_iteration or added.get(key) != self._stepping.batch_key:
                add(group)
                added[key] = self._stepping.batch_key

        return once

    def _asked(self, optimizer: torch.optim.Optimizer, step: Any) -> Any:
        stepping = self._stepping

        @functools.wraps(step)
        def asked(_: torch.optim.Optimizer, closure: Any = None, *args: Any, **kwargs: Any) -> Any:
            if backward.is_running():
                raise RuntimeError(STEP_IN_BACKWARD)
            if closure is not None:
                return with_closure(closure, *args, **kwargs)
            stepping.before_step(optimizer)
            stepping.ask_step(optimizer)
            return step(*args, **kwargs) if stepping.step_happens else None

        def with_closure(closure: Any, *args: Any, **kwargs: Any) -> Any:
            """Run the closure first: whether the step happens is known only after its backward."""
            with torch.enable_grad():
                result = closure()
            stepping.before_step(optimizer)
            stepping.ask_step(optimizer)
            known = [result]

            def evaluated() -> Any:
                if known:
                    return known.pop()
                again = closure()
                if not stepping.step_happens:
                    raise RuntimeError(EVALUATED_AGAIN)
                return again

            return step(evaluated, *args, **kwargs) if stepping.step_happens else result

        return asked

    def _before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
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


def _id_of(parameter: Any) -> int:
    """Return the id of a parameter, which may come with its name."""
    return id(parameter[1] if isinstance(parameter, tuple) else parameter)


def adapt_scheduler(scheduler: Any, index: int, stepping: Stepping) -> None:
    """Make a scheduler advance with progress instead of with batches and passes.

    A finished step advances it by the step's progress, and the end of a pass by that of the pass. It advances in
    whole steps and carries the rest over, so a schedule made for the initial batch size ends where it should.
    A scheduler that goes by a metric is given the mean over all replicas, so that all decide alike.
    """
    kind = type(scheduler)

    def step(self: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(self, ReduceLROnPlateau):
            metric, *rest = args if args else (kwargs.pop("metrics"),)
            kind.step(self, stepping.combined(float(metric)), *rest, **kwargs)
            return
        if stepping.in_iteration and not stepping.step_happens:
            stepping.schedule_calls[index] += not stepping.partial
            return
        given = args or kwargs.get("epoch") is not None
        if given:
            place = stepping.schedule_place
            kind.step(self, *args, **kwargs) if place is None else kind.step(self, place)
            return
        calls, stepping.schedule_calls[index] = stepping.schedule_calls[index] + 1, 0
        made = calls * stepping.step_progress if stepping.in_iteration else stepping.pass_progress
        credit = stepping.schedule_credit[index] + made
        advances = math.floor(credit + 1e-6)
        stepping.schedule_credit[index] = credit - advances
        for _ in range(advances):
            kind.step(self)

    # A subclass, because a scheduler's state_dict is its __dict__ and would hold a new attribute.
    scheduler.__class__ = type(kind.__name__, (kind,), {"step": step, "__module__": kind.__module__})


def adapt_scaler(scaler: torch.amp.GradScaler, stepping: Stepping) -> None:
    """Let a gradient scaler rest where no step happens, because there it has no gradients to look at."""
    kind = type(scaler)

    def rests() -> bool:
        return not stepping.step_happens

    def unscale_(self: Any, optimizer: torch.optim.Optimizer) -> None:
        if not rests():
            stepping.before_step(optimizer)
            kind.unscale_(self, optimizer)

    def step(self: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
        stepping.before_step(optimizer)
        stepping.ask_step(optimizer)
        return None if rests() else kind.step(self, optimizer, *args, **kwargs)

    def update(self: Any, new_scale: float | Tensor | None = None) -> None:
        if not rests():
            kind.update(self, new_scale)

    members = {"unscale_": unscale_, "step": step, "update": update, "__module__": kind.__module__}
    scaler.__class__ = type(kind.__name__, (kind,), members)
