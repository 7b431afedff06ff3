"""Pollux's gradient noise scale (PGNS), measured while training.

A gradient of B samples is the true gradient plus noise: `E|g|^2 = sqr + var / B`. Here `sqr` is the squared norm
of the true gradient, and `var` the trace of the covariance of one sample's gradient.
The noise scale is `var / sqr`: the batch size at which noise and signal are equally strong (Pollux, OSDI'21,
section 3; Sia, section 3.1).
Two estimators give both numbers from norms that training computes anyway:

* groups (several replicas or accumulated passes): the norms of the parts beside the norm of their mean;
* consecutive (one replica, one pass): the difference of this step's gradient and the last one's. It counts the
  movement of the true gradient between two steps as noise, so the first estimator replaces it when it can.

Some optimizers divide by a running second moment. For them both are measured on the divided gradient
(`Preconditioner`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..sharding.local import local

# `noise_scale` is at most this; beyond it there is no signal left to measure.
MAX_NOISE_SCALE = 1e9
# After so many optimizer steps a second moment says enough about a parameter to divide by it.
MIN_PRECONDITIONER_STEPS = 5
# A second moment is read anew when the step count has grown by a tenth, and at least this often, in steps.
MAX_REFRESH_STEPS = 16
# Gradients whose second moment is this share of the parameter's mean say nothing of the noise.
HARDLY_ANY = 1e-6
# Estimates from fewer measured steps are too rough to choose a batch size by.
SETTLED_AFTER = 10


@dataclass
class _Average:
    """An exponential average with bias correction; `weight` is the share of observations in `total`."""

    total: float = 0.0
    weight: float = 0.0

    @property
    def value(self) -> float | None:
        return self.total / self.weight if self.weight > 0 else None

    def add(self, observation: float, theta: float) -> None:
        self.total = theta * self.total + (1 - theta) * observation
        self.weight = theta * self.weight + (1 - theta)

    def keep_at_most(self, weight: float) -> None:
        """Keep the value, but let it count for no more than `weight`."""
        if self.weight > weight:
            self.total *= weight / self.weight
            self.weight = weight


class GradientNoise:
    """The smoothed squared gradient norm, gradient variance and noise scale of one job.

    `smoothing` is the share of the old average that one step at the initial batch size leaves. A step with k
    times as many samples leaves `smoothing ** k`, so memory is measured in samples and not in steps.
    `initial_batch_size` None stands for the first batch size seen.
    """

    def __init__(self, smoothing: float = 0.999, initial_batch_size: int | None = None) -> None:
        if not 0 < smoothing < 1:
            raise ValueError(f"smoothing: {smoothing} is not between 0 and 1")
        self.smoothing = smoothing
        self.initial_batch_size = initial_batch_size
        self.observations = 0  # since the last reset
        self.ignored = 0  # updates left out because a norm was not finite
        self._sqr = _Average()
        self._var = _Average()
        self._consecutive = False  # whether the averages came from consecutive gradients
        self._preconditioned = False

    def update(
        self,
        sum_m_sqnorm: float,
        groups: int,
        batch_size: int,
        mean_grad_sqnorm: float,
        preconditioned: bool = False,
    ) -> None:
        """Take in one step of `groups` parts with `batch_size` samples in all.

        `sum_m_sqnorm` is the sum over parts of samples x squared norm of the part's mean gradient.
        `mean_grad_sqnorm` is the squared norm of the mean over all samples. Parts may differ in size.
        """
        if groups < 2 or batch_size < groups:
            raise ValueError(f"groups: {groups} of {batch_size} samples; at least 2 with a sample each are needed")
        var = (sum_m_sqnorm - batch_size * mean_grad_sqnorm) / (groups - 1)
        sqr = mean_grad_sqnorm - var / batch_size
        self._observe(sqr, var, batch_size, consecutive=False, preconditioned=preconditioned)

    def update_consecutive(
        self, diff_sqnorm: float, sum_sqnorm: float, batch_size: int, preconditioned: bool = False
    ) -> None:
        """Take in squared norms of difference and sum of two consecutive gradients.

        Each is of `batch_size` samples.
        """
        var = batch_size * diff_sqnorm / 2
        sqr = sum_sqnorm / 4 - var / (2 * batch_size)
        self._observe(sqr, var, batch_size, consecutive=True, preconditioned=preconditioned)

    @property
    def settled(self) -> bool:
        """Whether enough steps were measured to choose a batch size by."""
        return self.observations >= SETTLED_AFTER

    @property
    def sqr(self) -> float | None:
        """The squared norm of the true gradient, at least 0; None before the first estimate."""
        value = self._sqr.value
        return None if value is None else max(value, 0.0)

    @property
    def var(self) -> float | None:
        """The trace of the covariance of one sample's gradient, at least 0; None before the first estimate."""
        value = self._var.value
        return None if value is None else max(value, 0.0)

    @property
    def noise_scale(self) -> float | None:
        """`var / sqr` in samples, between 0 and `MAX_NOISE_SCALE`; None before the first estimate."""
        sqr, var = self.sqr, self.var
        if sqr is None or var is None:
            return None
        if var == 0:
            return 0.0
        return min(var / sqr, MAX_NOISE_SCALE) if sqr > 0 else MAX_NOISE_SCALE

    def gain(self, batch_size: float, initial_batch_size: float) -> float:
        """Return AdaScale's gain: the progress of a step of `batch_size` samples, in steps of the initial size.

        It is `(var / B0 + sqr) / (var / B + sqr)` (Sia, section 3.1; Johnson et al., ICML'20).
        It lies between 1 and B / B0, and is 1 before the first estimate.
        """
        sqr, var = self.sqr, self.var
        if sqr is None or var is None:
            return 1.0
        noise = var / batch_size + sqr
        return (var / initial_batch_size + sqr) / noise if noise > 0 else 1.0

    def reset(self) -> None:
        """Forget the estimates: gradients are measured in other units from now on."""
        self._sqr, self._var = _Average(), _Average()
        self.observations = 0

    def state_dict(self) -> dict[str, Any]:
        return {
            "sqr": [self._sqr.total, self._sqr.weight],
            "var": [self._var.total, self._var.weight],
            "consecutive": self._consecutive,
            "preconditioned": self._preconditioned,
            "initial_batch_size": self.initial_batch_size,
            "observations": self.observations,
            "ignored": self.ignored,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._sqr, self._var = _Average(*state["sqr"]), _Average(*state["var"])
        self._consecutive = bool(state["consecutive"])
        self._preconditioned = bool(state["preconditioned"])
        self.initial_batch_size = state["initial_batch_size"]
        self.observations = int(state["observations"])
        self.ignored = int(state["ignored"])

    def _observe(self, sqr: float, var: float, batch_size: int, consecutive: bool, preconditioned: bool) -> None:
        if not (math.isfinite(sqr) and math.isfinite(var)):
            self.ignored += 1
            return
        if preconditioned != self._preconditioned:
            self.reset()
        elif self._consecutive and not consecutive:
            # The old values stay as a first guess, which one unbiased step outweighs.
            for average in (self._sqr, self._var):
                average.keep_at_most(1 - self.smoothing)
        self._preconditioned, self._consecutive = preconditioned, consecutive
        if self.initial_batch_size is None:
            self.initial_batch_size = batch_size
        theta = self.smoothing ** (batch_size / self.initial_batch_size)
        self.observations += 1
        self._sqr.add(sqr, theta)
        self._var.add(var, theta)


def sqnorm(tensors: Sequence[Tensor]) -> Tensor:
    """Return the squared norm of all `tensors` together: 0-d float64 on their device, read without waiting."""
    if not tensors:
        return torch.zeros((), dtype=torch.float64)
    if len(tensors) == 1:
        return flat_sqnorm(tensors[0])
    norms = torch.stack([norm.double() for norm in torch._foreach_norm(list(tensors))])
    return norms.square_().sum()


def flat_sqnorm(flat: Tensor, scale: Tensor | None = None) -> Tensor:
    """Return the squared norm of a tensor, times `scale` by element where given: 0-d float64 on its device.

    float32 and float64 use the BLAS dot product; shorter types are added up in float32.
    """
    product = flat if scale is None else flat * scale
    if product.is_complex():
        product = torch.view_as_real(product)
    if product.dtype in (torch.float32, torch.float64) and product.is_contiguous():
        product = product.view(-1)
        return torch.dot(product, product).double()
    return torch.linalg.vector_norm(product, dtype=torch.float32).double().square()


class ConsecutiveGradients:
    """Keeps the last step's gradient, bucket by bucket, for `GradientNoise.update_consecutive`.

    Call `push` for every bucket of a step, then `take` once. The first step after `clear` gives nothing, nor
    does one whose batch size or buckets differ from the last one's.
    """

    def __init__(self) -> None:
        self._last: dict[int, Tensor] = {}  # memory of earlier gradients, used again after `clear`
        self._pushed: dict[int, int] = {}  # bucket -> batch size of the gradient in `_last`
        self._sums: list[Tensor] = []  # (diff_sqnorm, sum_sqnorm) of each bucket of this step
        self._complete = True

    def push(self, bucket: int, flat: Tensor, batch_size: int, scale: Tensor | None = None) -> None:
        """Take in the mean gradient of one bucket; `scale` preconditions it and the last one."""
        last = self._last.get(bucket)
        fits = last is not None and (last.shape, last.dtype, last.device) == (flat.shape, flat.dtype, flat.device)
        if last is None or not fits:
            self._last[bucket] = flat.detach().clone()
            self._complete = False
        else:
            if self._pushed.get(bucket) == batch_size:
                squares = flat_sqnorm(last, scale) + flat_sqnorm(flat, scale)
                diff = flat_sqnorm(last.sub_(flat), scale)
                self._sums.append(torch.stack([diff, 2 * squares - diff]))  # |a+b|^2 + |a-b|^2 = 2|a|^2 + 2|b|^2
            else:
                self._complete = False
            last.copy_(flat)
        self._pushed[bucket] = batch_size

    def take(self, batch_size: int) -> Tensor | None:
        """Return squared norms of difference and sum over all buckets pushed since the last call: (2,) float64."""
        same = len(self._sums) == len(self._pushed) and set(self._pushed.values()) == {batch_size}
        sums = total(self._sums) if self._sums and self._complete and same else None
        self._sums, self._complete = [], True
        if not same:
            self._pushed = {bucket: size for bucket, size in self._pushed.items() if size == batch_size}
        return sums

    def clear(self) -> None:
        """Forget the last step where the next one does not follow it (a regroup, an undone or unmeasured step)."""
        self._pushed, self._sums, self._complete = {}, [], True


def is_adam_type(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether the optimizer divides the gradient by a running moment of it (Adam, RMSprop, Adagrad, …)."""
    families = (
        torch.optim.Adam,
        torch.optim.AdamW,
        torch.optim.NAdam,
        torch.optim.RAdam,
        torch.optim.Adamax,
        torch.optim.SparseAdam,
        torch.optim.RMSprop,
        torch.optim.Adagrad,
        torch.optim.Adadelta,
    )
    return isinstance(optimizer, families) or "betas" in optimizer.defaults


# Names under which optimizers keep their second moment, and whether it starts at 0 and needs Adam's correction.
_SECOND_MOMENTS = {"exp_avg_sq": True, "square_avg": False, "sum": False}


class Preconditioner:
    """Gives 1 / (sqrt(second moment) + eps) per parameter, and nothing at all for SGD-type optimizers.

    Adam-type optimizers step along the divided gradient, so its noise is what limits their batch size (Pollux,
    section 3.1, "preconditioned"). Parameters without a second moment are left as they are.
    Elements that hardly had any gradient yet count for nothing until they had one. Rows of an embedding that no
    sample looked up are an example, and units that never fire.
    Divided by next to nothing, their first gradient would outweigh all others. The optimizer sees that gradient
    first, and takes a step there like any other.
    """

    def __init__(self, *optimizers: torch.optim.Optimizer) -> None:
        self._optimizers = [optimizer for optimizer in optimizers if is_adam_type(optimizer)]
        self._eps: dict[Tensor, tuple[torch.optim.Optimizer, float, float | None]] = {}
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                betas = group.get("betas")
                beta2 = float(betas[1]) if isinstance(betas, tuple | list) and len(betas) == 2 else None
                for param in group["params"]:
                    self._eps[param] = (optimizer, float(group.get("eps", 1e-8)), beta2)
        self._flat: dict[tuple[int, ...], tuple[int, Tensor]] = {}
        self._ready = False
        # optimizer steps since construction; they are counted here because reading a GPU's counter would wait
        self._counted = 0
        for optimizer in self._optimizers:
            optimizer.register_step_post_hook(self._count)
            optimizer.register_load_state_dict_post_hook(self._forget)

    @property
    def identity(self) -> bool:
        """Whether the gradient is used as it is, as by SGD-type optimizers."""
        return not self._optimizers

    @property
    def steps(self) -> int:
        """Steps that the second moments have seen: the fewest over all parameters with state, 0 without any."""
        counts = [
            _step_count(state)
            for optimizer in self._optimizers
            for state in optimizer.state.values()
            if any(name in state for name in _SECOND_MOMENTS)
        ]
        return min(counts, default=0)

    @property
    def ready(self) -> bool:
        """Whether the gradient is to be divided: never for SGD, and after five steps for the others."""
        if not self._ready and self._optimizers:
            self._ready = self.steps >= MIN_PRECONDITIONER_STEPS
        return self._ready

    def scale(self, param: Tensor) -> Tensor | None:
        """Return 1 / (sqrt(v) + eps), of the parameter's shape: 0 where v is next to nothing.

        None: no second moment is kept of it.
        """
        if param not in self._eps:
            return None
        optimizer, eps, beta2 = self._eps[param]
        state = optimizer.state.get(param, {})
        name = next((name for name in _SECOND_MOMENTS if name in state), None)
        if name is None:
            return None
        moment = local(state[name])
        moment = (torch.view_as_real(moment).mean(-1) if moment.is_complex() else moment).float()
        unseen = moment <= HARDLY_ANY * moment.mean()
        if _SECOND_MOMENTS[name] and beta2 is not None:
            moment = moment / _bias_correction(beta2, state)
        return moment.sqrt().add_(eps).reciprocal_().masked_fill_(unseen, 0.0)

    def apply(self, params: Sequence[Tensor], grads: Sequence[Tensor]) -> list[Tensor]:
        """Return the divided gradients; the same tensors while not `ready`."""
        if not self.ready:
            return list(grads)
        scales = [self.scale(param) for param in params]
        divided = [i for i, scale in enumerate(scales) if scale is not None]
        result = list(grads)
        products = torch._foreach_mul([grads[i] for i in divided], [s for s in scales if s is not None])
        for i, product in zip(divided, products, strict=True):
            result[i] = product
        return result

    def sqnorm(self, params: Sequence[Tensor], grads: Sequence[Tensor]) -> Tensor:
        """Return the squared norm of the divided gradients, 0-d float64."""
        return sqnorm(self.apply(params, grads))

    def flat_scale(self, flat: Tensor, params: Sequence[Tensor], grads: Sequence[Tensor]) -> Tensor | None:
        """Return the divisors of a bucket `flat`, whose views `grads` are; None while none are needed.

        They are kept between steps, since reading them costs a pass over all parameters. They are read anew ever
        more rarely as the second moments settle.
        """
        if not self.ready:
            return None
        key = tuple(map(id, params))
        until, kept = self._flat.get(key, (0, None))
        if kept is not None and kept.shape == flat.shape and self._counted < until:
            return kept
        scales = torch.ones_like(flat)
        for param, grad in zip(params, grads, strict=True):
            scale = self.scale(param)
            if scale is not None:
                # A gradient may lie in the bucket in another order than its indices (channels_last).
                offset = scales.storage_offset() + grad.storage_offset() - flat.storage_offset()
                scales.as_strided(grad.size(), grad.stride(), offset).copy_(scale)
        self._flat[key] = (self._counted + min(1 + self._counted // 10, MAX_REFRESH_STEPS), scales)
        return scales

    def _count(self, *_: object) -> None:
        self._counted += 1

    def _forget(self, *_: object) -> None:
        """Forget what was read, because another state was loaded into an optimizer."""
        self._ready, self._counted, self._flat = False, 0, {}


def total(values: Sequence[Tensor]) -> Tensor:
    """Return the sum of `parts`, on the device of the first: a replica's buckets may lie on several GPUs."""
    return torch.stack([value.to(values[0].device) for value in values]).sum(0)


def _bias_correction(beta2: float, state: Mapping[str, Any]) -> float | Tensor:
    step = state.get("step", 0)
    # fused and capturable optimizers keep it on the GPU, and reading it would wait
    if isinstance(step, Tensor) and step.is_cuda:
        return (1 - beta2 ** step.double()).clamp_(min=1e-12)
    return max(1 - beta2 ** int(step), 1e-12)


def _step_count(state: Mapping[str, Any]) -> int:
    return int(state.get("step", 0))
