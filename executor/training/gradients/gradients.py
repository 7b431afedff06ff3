"""How the gradients of a step are combined over passes and replicas.

Nothing stands between a script and its model. Each `backward` is surrounded instead (`backward.py`): the loss's
gradient is weighted by this part's share of the batch before it runs, full buckets are sent on their way by hooks
on the parameters while it runs, and after it every gradient is that of the whole batch on all replicas. So it does
not matter how a loss was computed, in how many backward passes, or from which parts of a model. One replica in one
pass does nothing of this.

Replicas agree without asking: the n-th backward of a batch is expected to reach the parameters that it reached
before on any replica. A few words at the end of the last bucket tell whether it did; where it did not, they ask.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..collective.buckets import (
    EXTRA,
    FIRST_GUARD,
    GUARDS,
    MISSING,
    NORM,
    STALE,
    WEIGHT,
    WORDS,
    Layout,
    fill_words,
)
from ..collective.group import Group, GroupBroken
from ..losses.loss_kind import Kind, Term
from ..losses.loss_weights import Again, LossWeights, Share
from .noise_meter import NoiseMeter
from .step_timer import StepTimer

# Layouts kept; a script with more sets of parameters than this in turn makes them anew.
MOST_LAYOUTS = 6
TAKEN = (
    "the script takes gradients of parameters itself, which are a batch's only where it computes all of it; every "
    "replica computes whole batches. Where it only adds them up, say what its loss is, as in "
    'coadapt.prepare(…, loss="mean")'
)
LOST_ON_TOP = (
    "a replica was lost after a backward whose gradients were added to earlier ones; the training goes on from "
    "its last checkpoint"
)
OWN = -1  # stands for a backward, where a script has put gradients into `.grad` itself


class Guard(Protocol):
    """Words that must be equal on all replicas whenever gradients are combined."""

    def words(self) -> Sequence[int]:
        """`GUARDS` whole numbers, 0 to 4095: sums over thousands of replicas are exact in float32."""

    def differs(self, word: int) -> str:
        """One sentence on what it means that a word differs."""


@dataclass(frozen=True)
class PartPlan:
    """One part of a batch on this replica: `samples` of its `batch` samples, which `copies` parts compute alike.

    `merged` steps of the script make the optimizer step, of `step_samples` samples in `parts` different parts.
    `per_step`: batches whose gradients the script adds up to a step of its own, where they are combined together.
    `visible`: the script may look at the gradients and step by them; else they are kept back for a later part.
    `void`: they are dropped. `last`: it is the last pass of its batch.
    """

    samples: int
    batch: int
    copies: int = 1
    merged: int = 1
    parts: int = 1
    step_samples: int = 0
    visible: bool = True
    void: bool = False
    last: bool = True
    per_step: int = 1

    @property
    def whole(self) -> bool:
        """Whether it is all of its step."""
        return self.samples == self.batch and self.merged == 1 and self.copies == 1


class Gradients:
    """Combines gradients of `parameters()`, the same list on all replicas; what is added to it comes last.

    Gradients that a script has accumulated itself are put aside for the length of a backward and added to its
    result. `undone`: a collective failed, nothing is left of the running part, and it has to be done again.
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
        self._before_backward = before_backward
        self.group: Group | None = None
        self.undone = False
        self.backwards = 0  # of the running part
        self.on_backward: Callable[[Sequence[Any], int, int], None] | None = None
        self.after_backward: Callable[[], None] | None = None  # told when gradients are whole
        self.keeps_loss = False
        self.loss: Tensor | None = None  # the last one, where it is kept, and what its first term is
        self.loss_term: Term | None = None
        self._parameters_now, self._guard = parameters, guard
        self._parameters: Sequence[Tensor] = ()
        self._number: dict[Tensor, int] = {}
        self._hooks: dict[int, Any] = {}
        self._plan: PartPlan | None = None
        self._part: PartPlan | None = None  # the last one, even where its step is forgotten
        self._aside: dict[int, Tensor] = {}
        self._on_top = False  # the running part's gradients are added to earlier ones
        self._redo: dict[int, Tensor] = {}  # put aside before a part that is to be done again
        self._stash: dict[int, dict[int, Tensor]] = {}  # by backward: gradients kept back, by number
        self._stashed_weight: dict[int, Any] = {}
        self._stale: Any = 0.0  # not 0 where a part kept back was not what had been agreed
        self._shown: set[int] = set()  # whose gradients are left for the script to look at, and are kept back
        self._reached: set[int] = set()  # in the running part, where it is kept back
        self._below: dict[int, Tensor] = {}  # what the script had accumulated before those
        self._combined: dict[int, weakref.ref[Tensor]] = {}  # by number: the gradient that was combined last
        self._expected: dict[int, Layout] = {}
        self._layouts: dict[tuple[int, ...], Layout] = {}
        # Of the backward that runs:
        self._layout: Layout | None = None
        self._share: Any = 1.0
        self._sending: dict[int, Tensor] = {}  # what was kept back of this backward
        self._sent = 0
        self._arrived: list[int] = []
        self._failed = False
        self._listens = False

    # --- the group ------------------------------------------------------------------------------------------

    @property
    def replicas(self) -> int:
        return self.group.world_size if self.group is not None else 1

    def attach(self, group: Group) -> None:
        """Combine in `group` from now on, all ranks holding the same parameters already."""
        self.detach()
        self.group = group
        self.weights.regrouped()
        self.parameters_changed()

    def detach(self) -> None:
        self.forget_step()
        self._unhook()
        self.group = None
        self.meter.forget()

    def parameters_changed(self) -> list[Tensor]:
        """Look at the parameters again; returns those that were added."""
        known, self._parameters = self._number, list(self._parameters_now())
        self._number = {parameter: i for i, parameter in enumerate(self._parameters)}
        self._unhook()
        return [parameter for parameter in self._parameters if parameter not in known]

    def _unhook(self) -> None:
        for handle in self._hooks.values():
            handle.remove()
        self._hooks, self._expected, self._layouts = {}, {}, {}

    def _hook(self) -> None:
        """Have arrivals told of every parameter that may get a gradient, those that were just unfrozen, too."""
        for i, parameter in enumerate(self._parameters):
            if i not in self._hooks and parameter.requires_grad:
                self._hooks[i] = parameter.register_post_accumulate_grad_hook(self._on_arrival)

    # --- parts of a step ------------------------------------------------------------------------------------

    def begin_part(self, plan: PartPlan) -> None:
        """The next backwards are of `plan`."""
        self._take_back()
        for i, gradient in self._redo.items():
            self._parameters[i].grad = gradient
        self._redo = {}
        self.undone = False
        self.weights.begin_part(self._part, self.backwards)
        self._plan = self._part = plan
        self._reached = set()
        self.backwards, self.loss = 0, None

    def forget_step(self) -> None:
        """Drop what is left of a step that did not come to its end."""
        self._take_back()
        self.undone = False
        self._plan = None
        self._stash, self._stashed_weight, self._stale = {}, {}, 0.0
        self.meter.drop()

    def _take_back(self) -> None:
        """Gradients that were left to be looked at are kept back elsewhere."""
        for i in self._shown:
            self._parameters[i].grad = self._below.get(i)
        self._shown, self._below = set(), {}

    def end_loop(self) -> None:
        """What the script computes now is of no batch."""
        self._plan = None

    @property
    def hidden(self) -> bool:
        """Whether the running part is one whose gradients the script does not see."""
        return self._plan is not None and not self._plan.visible

    def accumulated(self) -> dict[int, Tensor]:
        """Gradients that the script has not stepped by or dropped yet, by number of the parameter."""
        return self._redo or {i: p.grad for i, p in enumerate(self._parameters_now()) if p.grad is not None}

    def copy_accumulated(self) -> dict[int, Tensor]:
        """The same, as copies."""
        return {i: gradient.detach().clone() for i, gradient in self.accumulated().items()}

    def load_accumulated(self, gradients: dict[int, Tensor]) -> None:
        """Put these in place at the next part: what the script drops before that was dropped before, too."""
        parameters = self._parameters_now()
        for parameter in parameters:
            parameter.grad = None
        self._redo = {i: g.to(parameters[i].device, parameters[i].dtype).clone() for i, g in gradients.items()}

    # --- backward -------------------------------------------------------------------------------------------

    @contextmanager
    def backward(
        self, losses: Sequence[Tensor], scales: Sequence[Tensor | None]
    ) -> Iterator[Sequence[Tensor | None]]:
        """Surround one backward of the script; gives the gradients it starts with."""
        fits = self._before_backward()
        self._take_back()
        ordinal, self.backwards = self.backwards, self.backwards + 1
        plan = self._plan or PartPlan(1, self.replicas)
        self.loss = None
        if self.keeps_loss and isinstance(losses[0], Tensor):
            self.loss, self.loss_term = losses[0].detach(), self.weights.first_term(losses, plan)
        if ordinal:
            self.meter.drop()
        if self._plan is not None and not plan.void and (self.undone or self.weights.looks_at(plan)):
            self.weights.look(losses, plan)
        if self.on_backward is not None:
            self.on_backward(losses, plan.samples, plan.batch)
        if fits and self._nothing_to_do(plan):
            yield scales
            self._tell_of_gradients()
            return
        self._begin(plan, ordinal)
        share = self._share_of(losses, plan, ordinal) if fits and not (plan.void or self.undone) else None
        if share is None:
            yield scales
            self._drop()
            return
        self._share = share.root if not share.terms else share.weight
        handles = [node.register_prehook(_times(factor)) for node, factor in share.terms]
        if counts_nothing := not isinstance(share.root, Tensor) and share.root == 0:
            self._listens = False  # what comes of it may be 0/0, and is sent when it is known to be nothing
        elif share.counted is not None:
            handles.append(share.counted.register_prehook(_none_where(share.root)))
        try:
            yield [_scaled(loss, scale, share.root) for loss, scale in zip(losses, scales, strict=True)]
        except BaseException:
            self._restore_aside()
            raise
        finally:
            self._listens = False
            for handle in handles:
                handle.remove()
        self.timer.backward_done()
        with torch.no_grad():
            if counts_nothing:
                torch._foreach_zero_([p.grad for p in self._parameters if p.grad is not None])
            self._finish(plan, ordinal, share.weight)
        self.timer.sync_done()
        if plan.visible and not self.undone:
            self._tell_of_gradients()

    def _tell_of_gradients(self) -> None:
        if self.after_backward is not None:
            self.after_backward()

    def taken(self, inputs: Sequence[Any]) -> None:
        """The script takes gradients of parameters itself, and may reckon with them in any way."""
        plan, weights = self._plan, self.weights
        if plan is None or plan.void or plan.samples == plan.batch or weights.given is not Kind.UNKNOWN:
            return
        if not weights.whole and any(isinstance(one, Tensor) and one in self._number for one in inputs):
            weights.only_whole(TAKEN)

    def _share_of(self, losses: Sequence[Tensor], plan: PartPlan, ordinal: int) -> Share | None:
        """This part's share; None where the part has to be done again."""
        try:
            return self.weights.of(losses, plan, ordinal, self.group)
        except GroupBroken:
            self._failed = True
            return Share()
        except Again:
            return None

    def _nothing_to_do(self, plan: PartPlan) -> bool:
        if self.replicas > 1 or not plan.visible or self._stash or not (plan.whole or self._plan is None):
            return False
        return not self.meter.measures and not (self.group is not None and self.group.broken)

    def _begin(self, plan: PartPlan, ordinal: int) -> None:
        self._failed = self.group is not None and self.group.broken
        for i, parameter in enumerate(self._parameters):
            if parameter.grad is not None:
                self._aside[i], parameter.grad = parameter.grad, None
        if not ordinal:
            self._on_top = bool(self._aside)
        self._layout, self._sent, self._arrived = None, 0, []
        self._sending = self._stash.get(ordinal, {})
        if self.replicas > 1 and plan.visible:
            self._hook()
            self._layout = self._expected.get(ordinal)
            if self._layout is not None:
                self._layout.begin()
            self._listens = True

    def _finish(self, plan: PartPlan, ordinal: int, weight: Any) -> None:
        try:
            if self._failed or (self.group is not None and self.group.broken):
                raise GroupBroken
            stale, self.weights.stale = self.weights.stale, 0.0
            if not plan.visible:
                self._stale = self._stale + stale
                self._keep_back(plan, ordinal, weight)
            elif self.replicas > 1:
                self._combine(plan, ordinal, weight, self._stale + stale)
            elif self._stale + stale:
                self._see_again(ordinal)
            else:
                self._complete(plan, ordinal, weight)
        except (GroupBroken, Again):
            self._undo()

    def _see_again(self, ordinal: int) -> None:
        """A loss was of another kind than was agreed: its batch is done again, and all agree anew."""
        self.weights.disagreed(ordinal)
        raise Again

    def _drop(self) -> None:
        """What a backward made counts for nothing; its part, where it counts at all, has to be done again."""
        self._listens = False
        if self._plan is not None and not self._plan.void and not self.undone:
            self._undo()
            return
        self._show_all()
        self._aside = {}

    def _show_all(self) -> None:
        """Gradients that count for nothing are there to be looked at, as a script expects after a backward."""
        self._shown = {i for i, parameter in enumerate(self._parameters) if parameter.grad is not None}
        self._below = {}

    def undo(self, before: Mapping[int, Tensor] | None = None) -> None:
        """Nothing of the running part counts, whose backwards are over.

        `before`: copies of what the script had accumulated before it, where some may have been added to that.
        """
        self._take_back()
        self._aside = {i: p.grad for i, p in enumerate(self._parameters) if p.grad is not None}
        self._undo()
        if before is not None:
            self._redo = dict(before)

    def give_up(self) -> None:
        """The group broke while the script had a part: nothing of it counts, whatever is still made of it.

        Raises RuntimeError where the part's gradients were added to what the script had accumulated.
        """
        if self.undone:
            return
        if self.backwards and self._on_top:
            raise RuntimeError(LOST_ON_TOP)
        self.undo()
        if self.backwards:
            self._redo = {}

    def _undo(self) -> None:
        """Nothing of this part counts; what the script had accumulated before waits for it to be done again."""
        self.undone = True
        self._stash, self._stashed_weight, self._stale = {}, {}, 0.0
        self.meter.drop()
        self._show_all()
        self._redo, self._aside = self._aside, {}

    def _restore_aside(self) -> None:
        for i, before in self._aside.items():
            parameter = self._parameters[i]
            parameter.grad = before if parameter.grad is None else before.add_(parameter.grad)
        self._aside = {}
        self._note_combined()

    def _norm_factor(self, plan: PartPlan) -> Any:
        """From the squared norm of a part's weighted gradient to samples x squared norm of its mean gradient."""
        if not isinstance(self._share, Tensor) and self._share == 0:  # of no sample
            return 0.0
        divided_by = plan.samples if self.weights.sums else 1 / plan.per_step
        return plan.samples / (self._share * divided_by) ** 2

    # --- one replica ----------------------------------------------------------------------------------------

    def _keep_back(self, plan: PartPlan, ordinal: int, weight: Any) -> None:
        """Add the part's gradients to those kept back; the script may look at them until it goes on."""
        stash = self._stash.setdefault(ordinal, {})
        came = [(i, p, p.grad) for i, p in enumerate(self._parameters) if p.grad is not None]
        self.meter.part([(p, gradient) for _, p, gradient in came], self._norm_factor(plan))
        for i, _, gradient in came:
            if i in stash:
                stash[i].add_(gradient)
            else:
                stash[i] = gradient.detach().clone()
            self._shown.add(i)
            if ordinal != OWN:
                self._reached.add(i)
        self._stashed_weight[ordinal] = self._stashed_weight.get(ordinal, 0.0) + weight
        self._below.update({i: before for i, before in self._aside.items() if i in self._shown})
        self._aside = {i: before for i, before in self._aside.items() if i not in self._shown}
        self._restore_aside()

    def _complete(self, plan: PartPlan, ordinal: int, weight: Any) -> None:
        """The only replica has done the last part of a step."""
        stash = self._stash.pop(ordinal, {})
        if plan.parts > 1:
            came = [(p, p.grad) for p in self._parameters if p.grad is not None]
            self.meter.part(came, self._norm_factor(plan))
        for i, stashed in stash.items():
            parameter = self._parameters[i]
            parameter.grad = stashed if parameter.grad is None else parameter.grad.add_(stashed)
        factor = _to_one((self._stashed_weight.pop(ordinal, 0.0) + weight) / plan.per_step)
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        if factor is not None and gradients:
            torch._foreach_mul_(gradients, factor)
        self.meter.of_one(self._parameters, self._mean_divisor(plan))
        self._restore_aside()

    def _mean_divisor(self, plan: PartPlan) -> float:
        """A summed loss's gradient divided by this is that of the mean."""
        size = plan.step_samples / plan.merged if plan.merged > 1 else plan.batch
        return size if self.weights.sums else 1.0

    # --- several replicas -----------------------------------------------------------------------------------

    def _on_arrival(self, parameter: Tensor) -> None:
        """A gradient is there; called inside of backward."""
        if not self._listens or self._failed:
            return
        number = self._number[parameter]
        self._arrived.append(number)
        layout = self._layout
        if layout is None or not layout.overlaps or number not in layout.bucket_of:
            return
        layout.buckets[layout.bucket_of[number]].waiting -= 1
        while self._sent < len(layout.buckets) - 1 and layout.buckets[self._sent].waiting <= 0:
            self._send(layout)

    @torch.no_grad()
    def _send(self, layout: Layout) -> None:
        """Fill the next bucket and, unless its words are still missing, send it on its way."""
        bucket = layout.buckets[self._sent]
        self._sent += 1
        members = [self._parameters[i] for i in bucket.numbers]
        absent = [view for p, view in zip(members, bucket.views, strict=True) if p.grad is None]
        came = [(view, p.grad) for p, view in zip(members, bucket.views, strict=True) if p.grad is not None]
        if absent:
            torch._foreach_zero_(absent)
        if came:
            torch._foreach_copy_([view for view, _ in came], [gradient for _, gradient in came])
        if members and self.meter.measures and self._plan is not None:
            factor = self._norm_factor(self._plan)
            bucket.scale = self.meter.flat_part(bucket.gradients, members, bucket.views, factor)
        if self._sending:
            for i, view in zip(bucket.numbers, bucket.views, strict=True):
                if (stashed := self._sending.get(i)) is not None:
                    view.add_(stashed)
        if self._sent < len(layout.buckets):
            self._all_reduce(bucket)

    def _all_reduce(self, bucket: Any) -> None:
        group = self.group
        assert group is not None
        try:
            with group.collective():
                bucket.work = dist.all_reduce(bucket.flat, async_op=True)
        except GroupBroken:
            self._failed = True

    def _combine(self, plan: PartPlan, ordinal: int, weight: Any, stale: Any = 0.0) -> None:
        """All replicas' parts together, in every parameter that any of them reached."""
        group = self.group
        assert group is not None
        reached = {i for i, p in enumerate(self._parameters) if p.grad is not None} | self._sending.keys()
        layout = self._layout
        if layout is None:  # the first time
            layout = self._expected[ordinal] = self._layout_of(self._reached_by_any(reached, group), group)
            layout.begin()
            twice = len(set(self._arrived)) < len(self._arrived)  # as where activations are computed anew
            layout.overlaps = not any(flag for (flag,) in group.gather_ints([int(twice)]))
        while self._sent < len(layout.buckets):
            self._send(layout)
        extra = len(reached - set(layout.numbers))
        missing = len(set(layout.numbers) - reached)
        guards = list(self._guard.words()) if self._guard is not None else [0] * GUARDS
        weight = weight + self._stashed_weight.pop(ordinal, 0.0)
        fill_words(layout.words, [extra, missing, weight, self.meter.local, stale, *guards])
        words = self._exchange(layout, group)
        self._check(words, guards, group)
        if words[STALE]:
            self._see_again(ordinal)
        reached = self._reached_by_any(reached, group) if words[EXTRA] or words[MISSING] else reached
        self._take(layout, reached, words[WEIGHT] / plan.per_step)
        beyond = reached - set(layout.numbers)
        if beyond:
            self.meter.drop()
            self._combine_beyond(beyond, words[WEIGHT] / plan.per_step, group)
            self._expected[ordinal] = self._layout_of(reached | set(layout.numbers), group)
        if plan.copies == 1:
            flats = [(bucket.gradients, bucket.scale) for bucket in layout.buckets if bucket.numbers]
            self.meter.of_group(flats, words[NORM], self._mean_divisor(plan))
        else:
            self.meter.drop()
        self._stash.pop(ordinal, None)
        self._restore_aside()

    def _reached_by_any(self, reached: set[int], group: Group) -> set[int]:
        flags = torch.zeros(len(self._parameters), dtype=torch.int32)
        flags[list(reached)] = 1
        with group.collective():
            group.wait(dist.all_reduce(flags, async_op=True), flags)
        return set(flags.nonzero().flatten().tolist())

    def _layout_of(self, numbers: set[int], group: Group) -> Layout:
        key = tuple(sorted(numbers))
        if key not in self._layouts:
            while len(self._layouts) >= MOST_LAYOUTS:
                gone = self._layouts.pop(next(iter(self._layouts)))
                self._expected = {n: layout for n, layout in self._expected.items() if layout is not gone}
            self._layouts[key] = Layout(key, self._parameters, group.device)
        return self._layouts[key]

    def _exchange(self, layout: Layout, group: Group) -> list[float]:
        """Send the last bucket, wait for all, and read the words."""
        self._all_reduce(layout.buckets[-1])
        if self._failed:
            raise GroupBroken
        with group.collective():
            for bucket in layout.buckets:
                group.wait(bucket.work, bucket.flat)
            wait_for_devices(group, layout.devices)
        return layout.words.tolist()

    def _take(self, layout: Layout, reached: set[int], weight: float) -> None:
        """Put the combined gradients where optimizers look for them."""
        factor = _to_one(weight)
        into, came = [], []
        for bucket in layout.buckets:
            if factor is not None and bucket.numbers:
                bucket.gradients.mul_(factor)
            for i, view in zip(bucket.numbers, bucket.views, strict=True):
                parameter = self._parameters[i]
                if i not in reached:
                    parameter.grad = None
                elif parameter.grad is None:
                    parameter.grad = torch.empty_like(parameter).copy_(view)
                else:
                    into.append(parameter.grad)
                    came.append(view)
        if into:
            torch._foreach_copy_(into, came)

    def _combine_beyond(self, numbers: set[int], weight: float, group: Group) -> None:
        """Parameters that nobody expected to be reached."""
        layout = Layout(numbers, self._parameters, group.device)
        self._sent = 0
        while self._sent < len(layout.buckets):
            self._send(layout)
        fill_words(layout.words, [0.0] * WORDS)
        self._exchange(layout, group)
        self._take(layout, numbers, weight)

    def _check(self, words: Sequence[float], mine: Sequence[int], group: Group) -> None:
        """Words are alike everywhere if on each replica their sum is a multiple of its own."""
        for number, word in enumerate(mine):
            if self._guard is not None and words[FIRST_GUARD + number] != group.world_size * word:
                group.differ(self._guard.differs(number))

    # --- gradients that no backward brought -----------------------------------------------------------------

    def before_step(self, parameters: Sequence[Tensor]) -> None:
        """Combine what a script has put into `.grad` itself, as after `torch.autograd.grad`."""
        if self._plan is not None and self._plan.void:
            return
        if self.undone or (self.replicas == 1 and not self.hidden and not self._stash):
            return
        if not self.hidden:
            self._combine_left()
        own = [self._number[p] for p in parameters if p in self._number and self._is_own(p)]
        if not own:
            return
        plan = self._plan or PartPlan(1, self.replicas)
        if self.weights.whole and plan.samples < plan.batch:
            self.undo()
            return
        parts = plan.copies * plan.merged
        share = 1.0 / parts if self.weights.given is Kind.SUM else plan.samples / (plan.batch * parts)
        weight = plan.per_step * plan.samples / (plan.batch * parts)
        with torch.no_grad():
            for i in own:
                gradient = self._parameters[i].grad
                assert gradient is not None
                self._parameters[i].grad = gradient.detach() * share
            self.meter.drop()
            try:
                self._combine_own(plan, own, weight)
            except GroupBroken:
                self._undo()

    def _combine_left(self) -> None:
        """What was kept back of a backward that the last part did not make."""
        plan = self._plan or PartPlan(1, self.replicas)
        for ordinal in [ordinal for ordinal in self._stash if ordinal >= self.backwards]:
            with torch.no_grad():
                self._begin(plan, ordinal)
                self._finish(plan, ordinal, 0.0)

    def _combine_own(self, plan: PartPlan, own: Sequence[int], weight: float) -> None:
        others = {i: p.grad for i, p in enumerate(self._parameters) if p.grad is not None and i not in own}
        for i in others:
            self._parameters[i].grad = None
        self._failed = False
        self._share, self._aside, self._sending = 1.0, {}, self._stash.get(OWN, {})
        try:
            if not plan.visible:
                self._keep_back(plan, OWN, weight)
            elif self.replicas > 1:
                self._layout, self._sent, self._arrived = None, 0, []
                self._combine(plan, OWN, weight)
                self._expected.pop(OWN, None)
            else:
                self._complete(plan, OWN, weight)
        finally:
            for i, gradient in others.items():
                self._parameters[i].grad = gradient

    def _is_own(self, parameter: Tensor) -> bool:
        """Whether its gradient is one that neither was combined nor is kept back."""
        gradient, number = parameter.grad, self._number[parameter]
        known = self._combined.get(number)
        return (
            gradient is not None
            and number not in self._shown | self._reached
            and (known is None or known() is not gradient)
        )

    def _note_combined(self) -> None:
        for i, parameter in enumerate(self._parameters):
            if parameter.grad is not None:
                self._combined[i] = weakref.ref(parameter.grad)


def _to_one(weight: Any) -> float | Tensor | None:
    """What brings weights that add up to `weight` to 1; None where they do, or where there is nothing to bring."""
    if isinstance(weight, Tensor):
        return 1.0 / weight
    return None if abs(weight - 1.0) < 1e-6 or weight <= 0 else 1.0 / weight


def _times(factor: Any) -> Callable[[tuple[Tensor | None, ...]], tuple[Tensor | None, ...]]:
    """A hook that weights the gradients which come to a node; 0 times whatever is 0."""
    none = _none_where(factor)
    return lambda gradients: tuple(None if one is None else one * factor for one in none(gradients))


def _none_where(factor: Any) -> Callable[[tuple[Tensor | None, ...]], tuple[Tensor | None, ...]]:
    """A hook for gradients that may be 0/0 where `factor` is 0: nothing was counted there."""
    is_nothing = torch.as_tensor(factor) == 0

    def hook(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        return tuple(None if one is None else one.masked_fill(is_nothing.to(one.device), 0) for one in gradients)

    return hook


def _scaled(loss: Any, scale: Tensor | None, share: Any) -> Tensor | None:
    """The gradient that a backward starts with, times this part's share."""
    if not isinstance(share, Tensor) and share == 1.0:
        return scale
    if scale is not None:
        return scale * share
    return torch.ones_like(loss) * share if isinstance(loss, Tensor) and loss.numel() == 1 else None


def wait_for_devices(group: Group, devices: Iterable[torch.device]) -> None:
    """With NCCL a failed all-reduce raises nothing: see it through before the optimizer uses its result."""
    for device in devices:
        if device.type != "cuda":
            continue
        done, since_s = torch.cuda.current_stream(device).record_event(), time.monotonic()
        while not done.query():
            group.look_up(time.monotonic() - since_s)
            time.sleep(2e-5)


def spans_gpus(module: nn.Module) -> bool:
    """Whether a replica is cut into stages on GPUs of their own."""
    return len({parameter.device for parameter in module.parameters()}) > 1
