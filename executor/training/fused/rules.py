"""How common operations run for all trials at once, quicker than by `vmap`; each gives each trial its own result.

Trials lie beside each other as channels do: a convolution of all trials is one of as many groups (HFTA, MLSys'21).
So that nothing is copied between layers, results keep the batch as the first dimension in memory. A rule returns
None for arguments that it does not know, and `vmap` does these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .trial_number import TrialNumber

Rule = Callable[..., Tensor | None]
_T: Any = Tensor


class Stacks:
    """Tells tensors of trials from others, and makes them; `trial_tensor` gives its own functions."""

    def __init__(self, is_trials: Callable[[Any], bool], stacked: Callable[[Tensor], Tensor]) -> None:
        self.is_trials, self.stacked = is_trials, stacked

    def many(self, value: Any) -> Tensor | None:
        """Return the stack of a tensor of trials; None for anything else."""
        return self.stacked(value) if self.is_trials(value) else None

    def rules(self) -> dict[Any, Rule]:
        """Return the rules by the functions that torch hands over. Each returns a stack, or None."""
        found: dict[Any, Rule] = {F.linear: self.linear, F.cross_entropy: self.cross_entropy}
        found |= {F.batch_norm: self.batch_norm, F.group_norm: self.group_norm, F.layer_norm: self.layer_norm}
        found |= {F.dropout: self.dropout, torch.flatten: self.flatten, _T.flatten: self.flatten}
        for convolve, spatial in ((F.conv1d, 1), (F.conv2d, 2), (F.conv3d, 3)):
            found[convolve] = self._convolution(convolve, spatial)
        for pool, spatial in POOLS.items():
            found[pool] = self._pool(pool, spatial)
        for compute in POINTWISE:
            found[compute] = self._pointwise(compute)
        return found

    def linear(self, x: Any, weight: Any, bias: Any = None) -> Tensor | None:
        w, b = self.many(weight), None if bias is None else self.many(bias)
        if w is None or w.ndim != 3 or (bias is not None and b is None):
            return None
        trials, outputs, inputs = w.shape
        if (many := self.many(x)) is None:
            flat = F.linear(x.reshape(-1, inputs), w.reshape(-1, inputs), None if b is None else b.reshape(-1))
            found = flat.view(-1, trials, outputs).transpose(0, 1)
            return found.reshape(trials, *x.shape[:-1], outputs)
        rows = many.reshape(trials, -1, inputs)
        found = torch.bmm(rows, w.mT) if b is None else torch.baddbmm(b[:, None], rows, w.mT)
        return found.view(*many.shape[:-1], outputs)

    def _convolution(self, convolve: Callable[..., Tensor], spatial: int) -> Rule:
        def rule(
            x: Any,
            weight: Any,
            bias: Any = None,
            stride: Any = 1,
            padding: Any = 0,
            dilation: Any = 1,
            groups: int = 1,
        ) -> Tensor | None:
            w, b, many = self.many(weight), None if bias is None else self.many(bias), self.many(x)
            if w is None or (bias is not None and b is None):
                return None
            if (x.ndim if many is None else many.ndim - 1) != spatial + 2 or (many is None and groups > 1):
                return None
            trials = w.shape[0]
            given = x if many is None else as_channels(many)
            of = 1 if many is None else trials * groups
            flat = None if b is None else b.reshape(-1)
            return as_trials(convolve(given, w.flatten(0, 1), flat, stride, padding, dilation, of), trials)

        return rule

    def batch_norm(
        self,
        x: Any,
        running_mean: Any,
        running_var: Any,
        weight: Any = None,
        bias: Any = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor | None:
        many = self.many(x)
        if many is None or many.ndim < 3:
            return None
        parts: list[Tensor | None] = []
        for one in (running_mean, running_var, weight, bias):
            own = None if one is None else self.many(one)
            if one is not None and (own is None or not own.is_contiguous()):
                return None
            parts.append(None if own is None else own.view(-1))
        return as_trials(F.batch_norm(as_channels(many), *parts, training, momentum, eps), many.shape[0])

    def group_norm(
        self, x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
    ) -> Tensor | None:
        many, w, b = self.many(x), self.many(weight), self.many(bias)
        if many is None or many.ndim < 3 or (w is None) != (weight is None) or (b is None) != (bias is None):
            return None
        trials = many.shape[0]
        flat = [None if one is None else one.reshape(-1) for one in (w, b)]
        return as_trials(F.group_norm(as_channels(many), trials * num_groups, *flat, eps), trials)

    def layer_norm(
        self, x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
    ) -> Tensor | None:
        many, w, b = self.many(x), self.many(weight), self.many(bias)
        if many is None or (w is None) != (weight is None) or (b is None) != (bias is None):
            return None
        shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        found = F.layer_norm(many, shape, eps=eps)
        between = (1,) * (many.ndim - 1 - len(shape))
        found = found if w is None else found * w.view(len(w), *between, *shape)
        return found if b is None else found + b.view(len(b), *between, *shape)

    def cross_entropy(
        self,
        x: Any,
        target: Any,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> Tensor | None:
        many = self.many(x)
        plain = weight is None and size_average is None and reduce is None and ignore_index == -100
        if many is None or many.ndim != 3 or not plain or reduction not in ("mean", "sum"):
            return None
        if self.is_trials(target) or target.is_floating_point() or isinstance(label_smoothing, TrialNumber):
            return None
        trials = many.shape[0]
        each = F.cross_entropy(
            many.flatten(0, 1), target.repeat(trials), reduction="none", label_smoothing=label_smoothing
        ).view(trials, -1)
        total = each.sum(1)  # what is to be ignored counts as nothing
        return total if reduction == "sum" else total / (target != ignore_index).sum()

    def dropout(self, x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor | None:
        many = self.many(x)
        return None if many is None or isinstance(p, TrialNumber) else F.dropout(many, p, training, inplace)

    def flatten(self, x: Any, start_dim: int = 0, end_dim: int = -1) -> Tensor | None:
        many = self.many(x)
        if many is None or many.ndim < 2:
            return None
        dims = many.ndim - 1
        return many.flatten(start_dim % dims + 1, end_dim % dims + 1)

    def _pool(self, pool: Callable[..., Any], spatial: int) -> Rule:
        def rule(x: Any, *args: Any, **kwargs: Any) -> Tensor | None:
            many = self.many(x)
            if many is None or many.ndim != spatial + 3 or kwargs.get("return_indices"):
                return None
            found = pool(as_channels(many), *args, **kwargs)
            return as_trials(found, many.shape[0]) if isinstance(found, Tensor) else None

        return rule

    def _pointwise(self, compute: Callable[..., Tensor]) -> Rule:
        def rule(x: Any, *args: Any, **kwargs: Any) -> Tensor | None:
            many = self.many(x)
            plain = not any(isinstance(one, Tensor | TrialNumber) for one in (*args, *kwargs.values()))
            return compute(many, *args, **kwargs) if many is not None and plain else None

        return rule


POINTWISE = (
    *(F.relu, F.relu6, F.gelu, F.silu, F.leaky_relu, F.elu, F.hardtanh, F.hardswish, F.softplus, F.mish),
    *(torch.relu, torch.tanh, torch.sigmoid, torch.exp, torch.abs, _T.relu, _T.tanh, _T.sigmoid, _T.exp, _T.abs),
)
POOLS: dict[Any, int] = {
    **{torch.max_pool2d: 2, F.max_pool2d: 2, F.avg_pool2d: 2, F.adaptive_avg_pool2d: 2},
    **{torch.max_pool1d: 1, F.max_pool1d: 1, F.avg_pool1d: 1, F.adaptive_avg_pool1d: 1},
}


def as_channels(many: Tensor) -> Tensor:
    """Return (trials, batch, channels, …) as (batch, trials x channels, …)."""
    return many.transpose(0, 1).flatten(1, 2)


def as_trials(found: Tensor, trials: int) -> Tensor:
    """Return (batch, trials x channels, …) as (trials, batch, channels, …)."""
    return found.unflatten(1, (trials, -1)).transpose(0, 1)
