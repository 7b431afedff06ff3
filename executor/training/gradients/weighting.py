"""Weights a backward by its part's share of the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Gradients = tuple[Tensor | None, ...]


def scaled(loss: Any, scale: Tensor | None, share: Any) -> Tensor | None:
    """Return the gradient that a backward starts with, times its part's share."""
    if not isinstance(share, Tensor) and share == 1.0:
        return scale
    if scale is not None:
        return scale * share
    return torch.ones_like(loss) * share if isinstance(loss, Tensor) and loss.numel() == 1 else None


def times(factor: Any) -> Callable[[Gradients], Gradients]:
    """Return a hook that multiplies a node's gradients by `factor`; 0 times anything is 0."""
    none = none_where(factor)
    return lambda gradients: tuple(None if one is None else one * factor for one in none(gradients))


def none_where(factor: Any) -> Callable[[Gradients], Gradients]:
    """Return a hook that sets gradients to 0 where `factor` is 0: nothing was counted there, so they are 0/0."""
    is_nothing = torch.as_tensor(factor) == 0

    def hook(gradients: Gradients) -> Gradients:
        return tuple(None if one is None else one.masked_fill(is_nothing.to(one.device), 0) for one in gradients)

    return hook


def to_one(weight: Any) -> float | Tensor | None:
    """Return the factor that brings `weight` to 1; None where it is 1, or nothing can be brought to 1."""
    if isinstance(weight, Tensor):
        return 1.0 / weight
    return None if abs(weight - 1.0) < 1e-6 or weight <= 0 else 1.0 / weight
