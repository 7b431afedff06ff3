"""Puts the gradients of one backward together over passes and replicas."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..collective.group import Group, GroupBroken
from ..losses.loss_weights import Again, LossWeights
from ..sharding.local import local
from .kept_back import KeptBack
from .noise_meter import NoiseMeter
from .parameter_list import ParameterList
from .part_plan import PartPlan
from .reduction import Reduction
from .weighting import to_one


class PartSum:
    """Adds the gradients in `.grad` to those kept back, and to those of other replicas.

    aside: what the script had accumulated itself, by number; it is added to the result.
    share: what the part's gradients were multiplied by.
    """

    def __init__(
        self,
        parameters: ParameterList,
        kept: KeptBack,
        reduction: Reduction,
        meter: NoiseMeter,
        weights: LossWeights,
    ) -> None:
        self.aside: dict[int, Tensor] = {}
        self.share: Any = 1.0
        self._parameters, self._kept, self._reduction = parameters, kept, reduction
        self._meter, self._weights = meter, weights
        self._factor: Any = None  # what the squared norm of the replica's part is multiplied by

    def begin(self, plan: PartPlan, ordinal: int, measured: bool) -> None:
        """Put aside what the script has accumulated, and begin the sum of the backward number `ordinal`."""
        self.aside.update(self._parameters.take())
        self._factor = None
        self._reduction.begin(self._kept.of(ordinal), (lambda: self._norm_factor(plan)) if measured else None)
        if self._reduction.replicas > 1 and plan.visible:
            self._reduction.listen(ordinal)

    def begin_own(self, ordinal: int) -> None:
        """Begin the sum of gradients that the script has put into `.grad` itself."""
        self.aside, self.share = {}, 1.0
        self._reduction.begin(self._kept.of(ordinal), None)

    def finish(self, plan: PartPlan, ordinal: int, weight: Any, stale: Any = 0.0) -> None:
        """Put the sum into `.grad`, or keep the part back for a later one.

        `weight`: what this part counts for. `stale`: not 0 where a loss was not of the kind that was agreed.
        Raises `Again` where that holds on any replica, GroupBroken, and Disagreement.
        """
        if self._reduction.broken:
            raise GroupBroken
        if not plan.visible:
            self._keep_back(plan, ordinal, weight)
        elif self._reduction.replicas > 1:
            self._reduce(plan, ordinal, weight, stale)
        elif stale:
            raise Again
        else:
            self._complete(plan, ordinal, weight)

    def restore_aside(self) -> None:
        """Add what was put aside to the gradients that are there."""
        for i, before in self.aside.items():
            parameter = self._parameters.all[i]
            parameter.grad = before if parameter.grad is None else before.add_(parameter.grad)
        self.aside = {}
        self._parameters.note_combined()

    def _keep_back(self, plan: PartPlan, ordinal: int, weight: Any) -> None:
        """Add the part's gradients to those kept back. The script may look at them until it goes on."""
        kept = self._kept
        if self._meter.measures:
            self._meter.part(self._came(), self._norm_factor(plan))
        kept.add(ordinal, weight)
        kept.below.update({i: before for i, before in self.aside.items() if i in kept.shown})
        self.aside = {i: before for i, before in self.aside.items() if i not in kept.shown}
        self.restore_aside()

    def _complete(self, plan: PartPlan, ordinal: int, weight: Any) -> None:
        """Complete a step whose last part the only replica has done."""
        kept = self._kept.pop_gradients(ordinal)
        if plan.parts > 1:
            self._meter.part(self._came(), self._norm_factor(plan))
        for i, gradient in kept.items():
            parameter = self._parameters.all[i]
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
        factor = to_one((self._kept.pop_weight(ordinal) + weight) / plan.per_step)
        gradients = list(self._parameters.gradients.values())
        if factor is not None and gradients:
            torch._foreach_mul_(gradients, factor)
        self._meter.of_one(self._parameters.all, self._mean_divisor(plan))
        self.restore_aside()

    def _reduce(self, plan: PartPlan, ordinal: int, weight: Any, stale: Any) -> None:
        """Put all replicas' parts together."""
        weight = weight + self._kept.pop_weight(ordinal)
        group = self._reduction.group
        assert group is not None
        if group.shards is not None and self._meter.measures:
            self._norm_factor(plan)  # all processes of the replica are here
        found = self._reduction.sum(ordinal, weight, stale, plan.per_step)
        if found is not None and plan.copies == group.copies:
            layout, norms = found
            flats = [(one.gradients, one.scale, one.holders) for one in layout.buckets if one.numbers]
            self._meter.of_group(flats, norms, self._mean_divisor(plan), group.over_replica)
        else:
            self._meter.drop()
        self._kept.pop_gradients(ordinal)
        self.restore_aside()

    def _came(self) -> list[tuple[Tensor, Tensor]]:
        """Return each parameter that has a gradient, with what this process holds of that."""
        return [(self._parameters.all[i], local(gradient)) for i, gradient in self._parameters.gradients.items()]

    def _norm_factor(self, plan: PartPlan) -> Any:
        """Return samples x squared norm of a part's mean gradient, per squared norm of its weighted gradient."""
        divided_by = plan.samples if self._weights.sums else 1 / plan.per_step
        group = self._reduction.group
        if group is not None and group.shards is not None:
            return self._norm_factor_of_replica(plan.samples, self.share * divided_by, group)
        if not isinstance(self.share, Tensor) and self.share == 0:  # of no sample
            return 0.0
        return plan.samples / (self.share * divided_by) ** 2

    def _norm_factor_of_replica(self, samples: int, divided_by: Any, group: Group) -> float:
        """Return the same for a sharded model, whose gradients add up over a replica before they are seen."""
        if self._factor is None:
            mine = torch.tensor([float(samples), float(divided_by)], dtype=torch.float64)
            of_replica, divided = group.over_replica(mine).tolist()
            # Copies of a part have a share of it each, and only one of them adds to the gradient.
            self._factor = group.copies * of_replica / divided**2 if divided else 0.0
        return float(self._factor)

    def _mean_divisor(self, plan: PartPlan) -> float:
        """Return what a summed loss's gradient is divided by to be that of the mean; 1 for other losses."""
        size = plan.step_samples / plan.merged if plan.merged > 1 else plan.batch
        return size if self._weights.sums else 1.0
