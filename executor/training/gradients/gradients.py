"""Combines the gradients of a step over passes and replicas.

Nothing stands between a script and its model. Instead each `backward` is surrounded (`backward.py`):

* before it, the loss's gradient is weighted by this part's share of the batch (`weighting.py`);
* while it runs, hooks on the parameters send full buckets on their way (`reduction.py`);
* after it, every gradient is that of the whole batch on all replicas (`part_sum.py`).

So it does not matter how a loss was computed, in how many backwards, or from which parts of a model. One replica
in one pass does nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..collective.group import Group, GroupBroken
from ..losses.loss_kind import Kind, Term
from ..losses.loss_weights import Again, LossWeights, Share
from .kept_back import KeptBack
from .noise_meter import NoiseMeter
from .own_gradients import OwnGradients
from .parameter_list import ParameterList
from .part_plan import PartPlan
from .part_sum import PartSum
from .reduction import Guard, Reduction
from .step_timer import StepTimer
from .weighting import none_where, scaled, times

TAKEN = (
    "the script takes gradients of parameters itself, which are a batch's only where it computes all of it; every "
    "replica computes whole batches. Where it only adds them up, say what its loss is, as in "
    'coadapt.prepare(…, loss="mean")'
)
LOST_ON_TOP = (
    "a batch has to be done again whose gradients were added to those of earlier batches; the training goes on "
    "from its last checkpoint"
)


class Gradients:
    """Combines gradients of `parameters()`, which are the same list on all replicas; new ones come last.

    Gradients that a script has accumulated itself are put aside while a backward runs, and are added to its
    result.

    undone: a collective failed, nothing is left of the running part, and it has to be done again.
    backwards: those of the running part.
    on_backward, after_backward: called when a backward begins, and when gradients are whole.
    keeps_loss: whether the last loss is kept as `loss`, and its first term as `loss_term`.
    """

    def __init__(
        self,
        parameters: Callable[[], Sequence[Tensor]],
        meter: NoiseMeter,
        timer: StepTimer,
        tell: Callable[[str], None],
        guard: Guard | None = None,
        loss: Kind = Kind.UNKNOWN,
        before_backward: Callable[[], bool] = lambda: True,
    ) -> None:
        self.meter, self.timer = meter, timer
        self.weights = LossWeights(tell, loss)
        self.undone = False
        self.backwards = 0
        self.on_backward: Callable[[Sequence[Any], int, int], None] | None = None
        self.after_backward: Callable[[], None] | None = None
        self.keeps_loss = False
        self.loss: Tensor | None = None
        self.loss_term: Term | None = None
        self._before_backward = before_backward
        self._parameters = ParameterList(parameters)
        self._kept = KeptBack(self._parameters)
        self._reduction = Reduction(self._parameters, meter, guard)
        self._sum = PartSum(self._parameters, self._kept, self._reduction, meter, self.weights)
        self._own = OwnGradients(self._parameters, self._kept, self._reduction, self._sum, meter, self.weights)
        self._plan: PartPlan | None = None
        self._part: PartPlan | None = None  # the last one, even where its step is forgotten
        self._most_backwards = 0  # of a part; 0 before the first one
        self._began_empty = True  # whether there were no gradients when the running part began
        self._on_top = False  # whether the running part's gradients are added to earlier ones
        self._before: dict[int, Tensor] = {}  # copies of these, where several backwards may be added to them
        self._sets_own = False  # whether the script has put gradients into `.grad` itself
        self._before_own: dict[int, Tensor] = {}  # copies of what was there when the running part began
        self._redo: dict[int, Tensor] = {}  # what was put aside before a part that is to be done again

    # --- the group ------------------------------------------------------------------------------------------

    @property
    def replicas(self) -> int:
        """The number of replicas; 1 without a group."""
        return self._reduction.replicas

    def attach(self, group: Group) -> None:
        """Combine in `group` from now on. All ranks hold the same parameters already."""
        self.detach()
        self._reduction.group = group
        self.weights.regrouped()
        self.parameters_changed()

    def detach(self) -> None:
        """Leave the group, and drop what is left of a step."""
        self.forget_step()
        self._reduction.forget_layouts()
        self._reduction.group = None
        self.meter.forget()

    def parameters_changed(self) -> list[Tensor]:
        """Look at the parameters again; return those that were added."""
        self._reduction.forget_layouts()
        return self._parameters.refresh()

    # --- parts of a step ------------------------------------------------------------------------------------

    def begin_part(self, plan: PartPlan) -> None:
        """Begin a part: the backwards that follow belong to `plan`."""
        self._kept.take_back()
        self._parameters.put(self._redo)
        self._redo = {}
        self._began_empty = not self._parameters.gradients
        self._on_top, self._before = not self._began_empty, {}
        self._before_own = self.copy_accumulated() if self._sets_own and self.replicas > 1 else {}
        self._most_backwards = max(self._most_backwards, self.backwards)
        self.undone = False
        self.weights.begin_part(self._part, self.backwards)
        self._plan = self._part = plan
        self._kept.reached = set()
        self.backwards, self.loss = 0, None

    def forget_step(self) -> None:
        """Drop what is left of a step that did not come to its end."""
        self._kept.take_back()
        self.undone = False
        self._plan = None
        self._kept.clear()
        self.meter.drop()

    def end_loop(self) -> None:
        """End a loop: what the script computes from now on belongs to no batch."""
        self._plan = None

    @property
    def hidden(self) -> bool:
        """Whether the script does not see the gradients of the running part."""
        return self._plan is not None and not self._plan.visible

    def accumulated(self) -> dict[int, Tensor]:
        """Return gradients that the script has neither stepped by nor dropped yet, by number of the parameter."""
        return self._redo or {i: p.grad for i, p in enumerate(self._parameters.now()) if p.grad is not None}

    def copy_accumulated(self) -> dict[int, Tensor]:
        """Return copies of these gradients."""
        return {i: gradient.detach().clone() for i, gradient in self.accumulated().items()}

    def load_accumulated(self, gradients: dict[int, Tensor]) -> None:
        """Put these in place at the next part. What the script drops before that was dropped before, too."""
        parameters = self._parameters.now()
        for parameter in parameters:
            parameter.grad = None
        self._redo = {i: g.to(parameters[i].device, parameters[i].dtype).clone() for i, g in gradients.items()}

    # --- backward -------------------------------------------------------------------------------------------

    @contextmanager
    def backward(
        self, losses: Sequence[Tensor], scales: Sequence[Tensor | None]
    ) -> Iterator[Sequence[Tensor | None]]:
        """Surround one backward of the script; yield the gradients that it starts with."""
        fits = self._before_backward()
        self._kept.take_back()
        ordinal, self.backwards = self.backwards, self.backwards + 1
        plan = self._plan or PartPlan(1, self.replicas)
        self._look(losses, plan, ordinal)
        if fits and self._nothing_to_do(plan):
            yield scales
            self._tell_of_gradients()
            return
        self._begin(plan, ordinal)
        share = self._share_of(losses, plan, ordinal) if fits and not (plan.void or self.undone) else None
        if share is None:
            yield scales
            self._drop(ordinal)
            return
        self._sum.share = share.root if not share.terms else share.weight
        handles = [node.register_prehook(times(factor)) for node, factor in share.terms]
        if counts_nothing := not isinstance(share.root, Tensor) and share.root == 0:
            self._reduction.listens = False  # what comes may be 0/0; it is sent once it has been set to 0
        elif share.counted is not None:
            handles.append(share.counted.register_prehook(none_where(share.root)))
        try:
            yield [scaled(loss, scale, share.root) for loss, scale in zip(losses, scales, strict=True)]
        except BaseException:
            self._sum.restore_aside()
            raise
        finally:
            self._reduction.listens = False
            for handle in handles:
                handle.remove()
        self.timer.backward_done()
        with torch.no_grad():
            # What FSDP has summed up is of other processes, too; this one's loss was multiplied by 0.
            if counts_nothing and (self._reduction.group is None or self._reduction.group.shards is None):
                torch._foreach_zero_(list(self._parameters.gradients.values()))
            self._finish(plan, ordinal, share.weight)
        self.timer.sync_done()
        if plan.visible and not self.undone:
            self._tell_of_gradients()

    def taken(self, inputs: Sequence[Any]) -> None:
        """Note that the script takes gradients of parameters itself; it may compute anything from them."""
        plan, weights = self._plan, self.weights
        if plan is None or plan.void or plan.samples == plan.batch or weights.given is not Kind.UNKNOWN:
            return
        numbers = self._parameters.number
        if not weights.whole and any(isinstance(one, Tensor) and one in numbers for one in inputs):
            weights.only_whole(TAKEN)

    def _look(self, losses: Sequence[Tensor], plan: PartPlan, ordinal: int) -> None:
        """Look at the losses of a backward that begins."""
        self.loss = None
        if self.keeps_loss and isinstance(losses[0], Tensor):
            self.loss, self.loss_term = losses[0].detach(), self.weights.first_term(losses, plan)
        if ordinal:
            self.meter.drop()
        if self._plan is not None and not plan.void and (self.undone or self.weights.looks_at(plan)):
            self.weights.look(losses, plan)
        if self.on_backward is not None:
            self.on_backward(losses, plan.samples, plan.batch)

    def _tell_of_gradients(self) -> None:
        if self.after_backward is not None:
            self.after_backward()

    def _share_of(self, losses: Sequence[Tensor], plan: PartPlan, ordinal: int) -> Share | None:
        """Return this part's share; None where the part has to be done again."""
        try:
            return self.weights.of(losses, plan, ordinal, self._reduction.group)
        except GroupBroken:
            self._reduction.failed = True
            return Share()
        except Again:
            return None

    def _nothing_to_do(self, plan: PartPlan) -> bool:
        if self.replicas > 1 or not plan.visible or self._kept or not (plan.whole or self._plan is None):
            return False
        group = self._reduction.group
        return not self.meter.measures and not (group is not None and group.broken)

    def _begin(self, plan: PartPlan, ordinal: int) -> None:
        self._sum.begin(plan, ordinal, measured=self._plan is not None)
        if not ordinal:
            self._on_top = bool(self._sum.aside)
            copied = self._sum.aside if self._most_backwards != 1 else {}
            self._before = {i: gradient.detach().clone() for i, gradient in copied.items()}

    def _finish(self, plan: PartPlan, ordinal: int, weight: Any) -> None:
        stale = self._kept.stale
        if not self._reduction.broken:
            stale, self.weights.stale = stale + self.weights.stale, 0.0
            if not plan.visible:
                self._kept.stale = stale
        try:
            self._sum.finish(plan, ordinal, weight, stale)
        except GroupBroken:
            self._undo(self._before_backward_of(ordinal))
        except Again:  # a loss is of another kind than was agreed, so all agree anew
            self.weights.disagreed(ordinal)
            self._undo(self._before_backward_of(ordinal))

    # --- what counts for nothing ----------------------------------------------------------------------------

    def _drop(self, ordinal: int) -> None:
        """Drop what a backward made. A part that counts has to be done again."""
        self._reduction.listens = False
        if self._plan is not None and not self._plan.void and not self.undone:
            self._undo(self._before_backward_of(ordinal))
            return
        self._kept.show_all()
        self._sum.aside = {}

    def undo(self, before: Mapping[int, Tensor] | None = None) -> None:
        """Drop all of the running part, whose backwards are over, and have it done again.

        `before`: copies of what the script had accumulated before the part, where the part may have added to that.
        Raises RuntimeError where that is not known any more.
        """
        self._kept.take_back()
        if before is None:
            before = self._before_own if self._sets_own else self._parameters.gradients
            before = self._before_backwards() if self.backwards else before
        self._undo(before)

    def give_up(self) -> None:
        """Have a part done again because the group broke during it, whatever the script still makes of it.

        Raises RuntimeError where the part's gradients were added to what the script had accumulated.
        """
        if not self.undone:
            self.undo()

    def _undo(self, before: Mapping[int, Tensor]) -> None:
        """Drop the running part, and keep `before`, what the script had accumulated, until it is done again."""
        self.undone = True
        self._kept.clear()
        self.meter.drop()
        self._kept.show_all()
        self._redo, self._sum.aside = {} if self._began_empty else dict(before), {}

    def _before_backward_of(self, ordinal: int) -> Mapping[int, Tensor]:
        """Return what the script had accumulated before the part whose backward number `ordinal` runs."""
        return self._before_backwards() if ordinal else self._sum.aside

    def _before_backwards(self) -> Mapping[int, Tensor]:
        """Return what the script had accumulated before the part's backwards.

        Raises RuntimeError where these were added to it and no copy was kept.
        """
        if self._on_top and not self._before:
            raise RuntimeError(LOST_ON_TOP)
        return self._before

    # --- gradients that no backward brought -----------------------------------------------------------------

    def before_step(self, parameters: Sequence[Tensor]) -> None:
        """Combine what a script has put into `.grad` itself, as after `torch.autograd.grad`."""
        if self._plan is not None and self._plan.void:
            return
        if self.undone or (self.replicas == 1 and not self.hidden and not self._kept):
            return
        plan = self._plan or PartPlan(1, self.replicas)
        if not self.hidden:
            self._combine_left(plan)
        own = self._own.of(parameters)
        if not own:
            return
        self._sets_own = True
        if self.weights.whole and plan.samples < plan.batch:
            self.undo()
            return
        try:
            self._own.combine(plan, own)
        except GroupBroken:
            self._undo(self._before_backwards() if self.backwards else self._before_own)

    def _combine_left(self, plan: PartPlan) -> None:
        """Combine what was kept back of a backward that the last part did not make."""
        for ordinal in self._kept.from_backward(self.backwards):
            with torch.no_grad():
                self._begin(plan, ordinal)
                self._reduction.listens = False
                self._finish(plan, ordinal, 0.0)
