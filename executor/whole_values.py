"""Values of a whole batch that a script reads in its last pass: norms of combined gradients, and learning rates.

Whatever else differs from pass to pass is taken for one of the pass's samples.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad

KEPT = 8
_norms: deque[Tensor] = deque(maxlen=KEPT)


def watch_norms() -> None:
    """Note what torch's functions for norms of gradients return; called once, before the script is imported."""
    for module in (torch.nn.utils, clip_grad):
        for name in ("clip_grad_norm_", "get_total_norm"):
            if hasattr(module, name):
                setattr(module, name, _noting(getattr(module, name)))


def _noting(real: Any) -> Any:
    @functools.wraps(real)
    def noting(*args: Any, **kwargs: Any) -> Any:
        norm = real(*args, **kwargs)
        if isinstance(norm, Tensor):
            _norms.append(norm.detach())
        return norm

    return noting


def norms() -> list[float]:
    """The last norms that were computed."""
    return [float(norm) for norm in _norms]


def rates_of(optimizers: Sequence[torch.optim.Optimizer], schedulers: Sequence[Any]) -> list[float]:
    """Learning rates as the script can read them."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    told = [rate for scheduler in schedulers for rate in getattr(scheduler, "_last_lr", ())]
    return [float(rate) for rate in (*(group["lr"] for group in groups if "lr" in group), *told)]
