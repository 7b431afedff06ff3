"""Gradients that no backward brought: a script has put them into `.grad` itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..losses.loss_kind import Kind
from ..losses.loss_weights import LossWeights
from .kept_back import OWN, KeptBack
from .noise_meter import NoiseMeter
from .parameter_list import ParameterList
from .part_plan import PartPlan
from .part_sum import PartSum
from .reduction import Reduction


class OwnGradients:
    """Finds and combines a script's own gradients, as after `torch.autograd.grad`."""

    def __init__(
        self,
        parameters: ParameterList,
        kept: KeptBack,
        reduction: Reduction,
        part_sum: PartSum,
        meter: NoiseMeter,
        weights: LossWeights,
    ) -> None:
        self._parameters, self._kept, self._reduction = parameters, kept, reduction
        self._sum, self._meter, self._weights = part_sum, meter, weights

    def of(self, parameters: Sequence[Tensor]) -> list[int]:
        """Return the numbers of those parameters whose gradient was not combined and is not kept back."""
        numbers, held = self._parameters.number, self._kept.shown | self._kept.reached
        return [
            numbers[parameter]
            for parameter in parameters
            if parameter in numbers
            and parameter.grad is not None
            and numbers[parameter] not in held
            and not self._parameters.is_combined(parameter)
        ]

    @torch.no_grad()
    def combine(self, plan: PartPlan, own: Sequence[int]) -> None:
        """Combine the gradients of the parameters `own`, by number. Raises GroupBroken, and Disagreement."""
        parts = plan.copies * plan.merged
        share = 1.0 / parts if self._weights.given is Kind.SUM else plan.samples / (plan.batch * parts)
        weight = plan.per_step * plan.samples / (plan.batch * parts)
        gradients = self._parameters.take()
        self._parameters.put({i: gradients[i].detach() * share for i in own})
        others = {i: gradient for i, gradient in gradients.items() if i not in own}
        self._meter.drop()
        self._sum.begin_own(OWN)
        try:
            self._sum.finish(plan, OWN, weight)
            self._reduction.forget(OWN)
        finally:
            self._parameters.put(others)
