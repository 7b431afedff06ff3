"""Measures the norms of an optimizer step that the gradient noise scale is made of.

They are taken where gradients are combined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..sharding.local import local
from .gradient_noise import ConsecutiveGradients, GradientNoise, Preconditioner, flat_sqnorm, total

# The noise is measured at so many first steps, and then at two in so many, which keeps its cost below 1 %.
NOISE_FIRST = 48
NOISE_EVERY = 16


class NoiseSchedule:
    """Chooses the steps whose noise is measured."""

    def __init__(self) -> None:
        self._steps = 0

    def begin_again(self) -> None:
        """Measure every step again, as in a new group."""
        self._steps = 0

    def next_is_measured(self) -> bool:
        """Count the step that begins, and return whether it is measured."""
        self._steps += 1
        return self._steps <= NOISE_FIRST or self._steps % NOISE_EVERY < 2


@dataclass
class _Step:
    """One step that is measured. Its gradients are multiplied by `loss_scale`."""

    samples: int
    parts: int
    preconditioned: bool
    loss_scale: float
    norms: Any = None  # sum over parts of samples x squared norm of the part's mean gradient
    mean_sqnorm: Any = None
    consecutive: Tensor | None = None


class NoiseMeter:
    """Measures the steps that it is told to; the others cost nothing.

    Parts are the pieces of a step whose gradients are known by themselves. Where there is only one, its gradient
    is compared with that of the step before.
    """

    def __init__(self, noise: GradientNoise, preconditioner: Preconditioner) -> None:
        self._noise = noise
        self._preconditioner = preconditioner
        self._step: _Step | None = None
        self._done: _Step | None = None
        self._local: list[Tensor] = []
        self._consecutive = ConsecutiveGradients()
        self._consecutive_scale = 1.0

    @property
    def measures(self) -> bool:
        return self._step is not None

    def begin(self, samples: int, parts: int, loss_scale: float) -> None:
        """Measure the step that begins now, with `samples` samples in all."""
        self._local = []
        self._step = _Step(samples, parts, self._preconditioner.ready, loss_scale)

    def skip(self) -> None:
        """Skip the step that begins now, and do not compare a later one with the step before it."""
        self.drop()
        self._consecutive.clear()

    def drop(self) -> None:
        """Forget the running step, which was undone or is no single backward."""
        self._step = self._done = None
        self._local = []

    def forget(self) -> None:
        """Forget all steps, because the group changed."""
        self.skip()

    def part(self, gradients: Sequence[tuple[Tensor, Tensor]], factor: Any) -> None:
        """Take in the (parameter, gradient)s of one part; `factor` makes their squared norm a term of `norms`."""
        if self._step is None:
            return
        for parameter, gradient in gradients:
            scale = self._preconditioner.scale(parameter) if self._step.preconditioned else None
            self._local.append(flat_sqnorm(gradient, scale) * factor)

    def flat_part(
        self, flat: Tensor, parameters: Sequence[Tensor], views: Sequence[Tensor], factor: Any
    ) -> Tensor | None:
        """Take in the gradients of one part that lie in one piece of memory.

        Returns what they were divided by, which the norm of their mean needs, too; None where they were not.
        """
        if self._step is None:
            return None
        scale = self._preconditioner.flat_scale(flat, parameters, views) if self._step.preconditioned else None
        self._local.append(flat_sqnorm(flat, scale) * factor)
        return scale

    @property
    def local(self) -> Tensor | float:
        """The sum over this replica's parts."""
        return total(self._local) if self._local else 0.0

    def of_group(
        self,
        flats: Sequence[tuple[Tensor, Tensor | None, int]],
        norms: Any,
        size: float,
        over_replica: Callable[[Tensor], Tensor],
    ) -> None:
        """Take in the combined gradients and all replicas' norms. A summed loss adds up `size` samples.

        `over_replica` adds up over the processes of a replica, each of which has its own shards; so many of them
        hold the same ones as the last number of each flat says.
        """
        step, self._step = self._step, None
        if step is None or not flats:
            return
        if step.parts > 1:
            step.norms = norms
            sqnorm = over_replica(total([flat_sqnorm(flat, scale) / held for flat, scale, held in flats]))
            step.mean_sqnorm = sqnorm / size**2
        else:  # one replica, whose processes hold shards
            self._compare_with_last([(flat / (size * held**0.5), scale) for flat, scale, held in flats], step)
            if step.consecutive is not None:
                over_replica(step.consecutive)
        self._done = step

    def of_one(self, parameters: Sequence[Tensor], size: float) -> None:
        """Take in the whole gradient of the only replica, which is in `.grad`."""
        step, self._step = self._step, None
        if step is None:
            return
        flats = [self._flat(members, step, size) for members in _by_kind(parameters)]
        if not flats:
            return
        if step.parts > 1:
            step.norms = total(self._local)
            step.mean_sqnorm = total([flat_sqnorm(flat, scale) for flat, scale in flats])
        else:
            self._compare_with_last(flats, step)
        self._done = step

    def _compare_with_last(self, flats: Sequence[tuple[Tensor, Tensor | None]], step: _Step) -> None:
        if self._consecutive_scale != step.loss_scale:
            self._consecutive.clear()
            self._consecutive_scale = step.loss_scale
        for number, (flat, scale) in enumerate(flats):
            self._consecutive.push(number, flat, step.samples, scale)
        step.consecutive = self._consecutive.take(step.samples)

    def _flat(self, parameters: Sequence[Tensor], step: _Step, size: float) -> tuple[Tensor, Tensor | None]:
        gradients = [local(parameter.grad) for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.detach().reshape(-1) for gradient in gradients])
        if size != 1:
            flat = flat.div_(size)
        if not step.preconditioned:
            return flat, None
        places = flat.split([gradient.numel() for gradient in gradients])
        views = [place.view(gradient.shape) for place, gradient in zip(places, gradients, strict=True)]
        return flat, self._preconditioner.flat_scale(flat, parameters, views)

    def update(self) -> None:
        """Hand the finished step to the estimator. This waits for the device where the step was measured."""
        step, self._done = self._done, None
        if step is None:
            return
        factor = step.loss_scale**2
        if step.consecutive is not None:
            difference, both = (step.consecutive / factor).tolist()
            self._noise.update_consecutive(difference, both, step.samples, step.preconditioned)
        elif step.norms is not None and 2 <= step.parts <= step.samples:
            self._noise.update(
                float(step.norms) / factor,
                step.parts,
                step.samples,
                float(step.mean_sqnorm) / factor,
                step.preconditioned,
            )


def _by_kind(parameters: Sequence[Tensor]) -> list[list[Tensor]]:
    """Group the parameters that have a gradient by its device and type."""
    kinds: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            kinds.setdefault((parameter.grad.device, parameter.grad.dtype), []).append(parameter)
    return list(kinds.values())
