"""The gradients of a batch's parts add up to the batch's, on top of what the script had accumulated itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from coadapt.executor.training.collective.group import GroupBroken
from coadapt.executor.training.gradients.gradient_noise import GradientNoise, Preconditioner
from coadapt.executor.training.gradients.kept_back import KeptBack
from coadapt.executor.training.gradients.noise_meter import NoiseMeter
from coadapt.executor.training.gradients.parameter_list import ParameterList
from coadapt.executor.training.gradients.part_plan import PartPlan
from coadapt.executor.training.gradients.part_sum import PartSum
from coadapt.executor.training.gradients.reduction import Reduction
from coadapt.executor.training.losses.loss_weights import Again, LossWeights
from torch import Tensor, nn


class Parts:
    """Two parameters whose batches come in parts, on one replica."""

    def __init__(self) -> None:
        self.first, self.second = (nn.Parameter(torch.zeros(2)) for _ in range(2))
        self.list = ParameterList(lambda: [self.first, self.second])
        self.list.refresh()
        self.kept = KeptBack(self.list)
        self.noise = GradientNoise(initial_batch_size=4)
        self.meter = NoiseMeter(self.noise, Preconditioner())
        self.reduction = Reduction(self.list, self.meter, None)
        self.sum = PartSum(self.list, self.kept, self.reduction, self.meter, LossWeights(lambda said: None))

    def give(
        self, plan: PartPlan, first: Tensor | None, second: Tensor | None, weight: float, stale: float = 0.0
    ) -> None:
        """Bring the gradients of a part, which a backward has weighted already."""
        self.sum.begin(plan, 0, measured=True)
        self.sum.share = weight
        self.first.grad, self.second.grad = first, second
        with torch.no_grad():
            self.sum.finish(plan, 0, weight, stale)

    def in_two(self, weights: Sequence[float], second: Tensor | None = None) -> None:
        """Give a batch of four samples in two parts."""
        self.kept.take_back()
        self.give(PartPlan(2, 4, parts=2, visible=False, last=False), torch.ones(2), second, weights[0])
        self.kept.take_back()
        self.give(PartPlan(2, 4, parts=2), torch.full((2,), 2.0), None, weights[1])


def test_what_was_kept_back_is_added_to_the_last_part_and_then_forgotten() -> None:
    parts = Parts()
    parts.in_two([0.5, 0.5], second=torch.full((2,), 5.0))
    assert parts.first.grad is not None
    assert parts.first.grad.tolist() == [3.0, 3.0]
    assert parts.second.grad is not None
    assert parts.second.grad.tolist() == [5.0, 5.0], "which only the first part has reached"
    assert not parts.kept


def test_weights_that_do_not_add_up_to_one_are_brought_to_it() -> None:
    parts = Parts()
    parts.in_two([1.0, 3.0])
    assert parts.first.grad is not None
    assert parts.first.grad.tolist() == [0.75, 0.75]


def test_gradients_that_the_script_has_accumulated_itself_stay_as_they_are_below_the_batchs() -> None:
    parts = Parts()
    own = parts.first.grad = torch.full((2,), 10.0)
    parts.in_two([1.0, 3.0])
    assert parts.first.grad is not None
    assert parts.first.grad.tolist() == [10.75, 10.75]
    assert own is parts.first.grad, "the script may hold it"


def test_a_part_that_is_kept_back_is_shown_and_taken_back() -> None:
    parts = Parts()
    parts.give(PartPlan(2, 4, parts=2, visible=False, last=False), torch.ones(2), None, 0.5)
    assert parts.first.grad is not None
    assert parts.first.grad.tolist() == [1.0, 1.0]
    parts.kept.take_back()
    assert parts.first.grad is None


def test_a_loss_of_another_kind_than_was_agreed_has_the_batch_done_again() -> None:
    parts = Parts()
    with pytest.raises(Again):
        parts.give(PartPlan(4, 4), torch.ones(2), None, 1.0, stale=1.0)


def test_a_backward_whose_group_broke_is_not_put_together() -> None:
    parts = Parts()
    parts.sum.begin(PartPlan(4, 4), 0, measured=True)
    parts.reduction.failed = True
    with pytest.raises(GroupBroken):
        parts.sum.finish(PartPlan(4, 4), 0, 1.0)


def test_the_noise_between_the_parts_is_measured() -> None:
    parts = Parts()
    parts.meter.begin(4, 2, 1.0)
    parts.in_two([0.5, 0.5])
    parts.meter.update()
    # Mean gradients of the parts: (2, 2) and (4, 4); of the batch: (3, 3).
    assert parts.noise.var == pytest.approx(2 * 8 + 2 * 32 - 4 * 18)
    assert parts.noise.sqr == pytest.approx(18 - 8 / 4)
