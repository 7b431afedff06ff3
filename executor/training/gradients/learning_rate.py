"""Lets the learning rate follow the batch size.

A rule gives the factor on the script's own learning rate for a step of `scale` times the initial batch size. It
applies to one optimizer step at a time, so the script's schedulers keep seeing the rate that they set.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from ....core.training_config import TrainingConfig
from .gradient_noise import is_adam_type

# LEGW starts at 0, but a step that moves nothing would be lost.
MIN_WARMUP_FACTOR = 1e-3


class LrRule(Protocol):
    """Gives the factor for one step. `scale`: batch size / initial batch size. `gain`: AdaScale's, 1 to `scale`.
    `epoch`: epochs done.
    """

    def factor(self, scale: float, gain: float, epoch: float) -> float: ...


@dataclass(frozen=True)
class AdaScale:
    """factor = gain: a step makes up for `gain` steps at the initial batch size (Johnson et al., ICML'20)."""

    def factor(self, scale: float, gain: float, epoch: float) -> float:
        return gain


@dataclass(frozen=True)
class SquareRoot:
    """factor = sqrt(scale), for Adam-type optimizers (Krizhevsky, 2014; Sia, section 3.3.5)."""

    def factor(self, scale: float, gain: float, epoch: float) -> float:
        return math.sqrt(scale)


@dataclass(frozen=True)
class Linear:
    """factor = scale (Goyal et al., 2017)."""

    def factor(self, scale: float, gain: float, epoch: float) -> float:
        return scale


@dataclass(frozen=True)
class Legw:
    """sqrt(scale), reached linearly over `warmup_epochs` x scale epochs (You et al., SC'19)."""

    warmup_epochs: float

    def factor(self, scale: float, gain: float, epoch: float) -> float:
        warmup = self.warmup_epochs * scale
        ramp = 1.0 if epoch >= warmup else max(epoch / warmup, MIN_WARMUP_FACTOR)
        return math.sqrt(scale) * ramp


@dataclass(frozen=True)
class Unscaled:
    """factor = 1: the learning rate stays the script's."""

    def factor(self, scale: float, gain: float, epoch: float) -> float:
        return 1.0


@dataclass(frozen=True)
class UserRule:
    """Applies a user's `f(scale, gain) -> factor`, which the job file names as `module:function`."""

    name: str
    function: Callable[[float, float], float]

    def factor(self, scale: float, gain: float, epoch: float) -> float:
        """Return the function's factor. Raises ValueError where that is no positive finite number."""
        value = float(self.function(scale, gain))
        if not (math.isfinite(value) and value > 0):
            raise ValueError(
                f"lr_scaling: {self.name} returned {value} for scale {scale:g} and gain {gain:g}; "
                "a positive number is needed"
            )
        return value


def lr_rule(config: TrainingConfig, optimizer: torch.optim.Optimizer) -> LrRule:
    """Return the rule of `config.lr_scaling`.

    "auto" is AdaScale for SGD-type and a square root for Adam-type optimizers.
    Raises ValueError for a `module:function` that cannot be imported or called.
    """
    name = config.lr_scaling
    if name == "auto":
        name = "sqrt" if is_adam_type(optimizer) else "adascale"
    match name:
        case "adascale":
            return AdaScale()
        case "sqrt":
            return SquareRoot()
        case "linear":
            return Linear()
        case "legw":
            return Legw(config.legw_warmup_epochs)
        case "none":
            return Unscaled()
    return UserRule(name, _user_function(name))


def _user_function(name: str) -> Callable[[float, float], float]:
    module_name, _, function_name = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except ImportError as error:
        raise ValueError(f"lr_scaling: {name}: module {module_name} cannot be imported ({error})") from error
    except AttributeError as error:
        raise ValueError(f"lr_scaling: {name}: module {module_name} has no function {function_name}") from error
    if not callable(function):
        raise ValueError(f"lr_scaling: {name} is no function but a {type(function).__name__}")
    return function
