"""Sums a backward's gradients over all replicas.

Replicas agree without asking: the n-th backward of a batch is expected to reach the parameters that any
replica's n-th backward reached before. A few words at the end of the last bucket tell whether it did. Replicas
ask each other only where it did not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ..collective.buckets import (
    EXTRA,
    FIRST_GUARD,
    GUARDS,
    MISSING,
    NORM,
    STALE,
    WEIGHT,
    WORDS,
    Bucket,
    Layout,
    fill_words,
)
from ..collective.group import Group, GroupBroken
from ..losses.loss_weights import Again
from ..sharding.local import holders, like, local, locals_of
from .noise_meter import NoiseMeter
from .parameter_list import ParameterList
from .weighting import to_one

# So many layouts are kept. A script that uses more sets of parameters in turn makes them anew.
MOST_LAYOUTS = 6


class Guard(Protocol):
    """Words that must be equal on all replicas whenever gradients are combined."""

    def words(self) -> Sequence[int]:
        """Return `GUARDS` whole numbers, 0 to 4095, whose sums over thousands of replicas are exact in float32."""

    def differs(self, word: int) -> str:
        """Return one sentence on what it means that a word differs."""


class Reduction:
    """Sums gradients over the replicas of `group`, while a backward runs and after it.

    failed: whether a collective of the running backward failed.
    listens: whether gradients that arrive are sent as soon as their bucket is full.
    """

    def __init__(self, parameters: ParameterList, meter: NoiseMeter, guard: Guard | None) -> None:
        self.group: Group | None = None
        self.failed = False
        self.listens = False
        self._parameters, self._meter, self._guard = parameters, meter, guard
        self._hooks: dict[int, Any] = {}
        self._expected: dict[int, Layout] = {}  # by number of the backward
        self._layouts: dict[tuple[int, ...], Layout] = {}
        # Of the backward that runs:
        self._layout: Layout | None = None
        self._sending: Mapping[int, Tensor] = {}  # what was kept back of this backward
        self._norm_factor: Callable[[], Any] | None = None
        self._sent = 0
        self._arrived: list[int] = []

    @property
    def replicas(self) -> int:
        """The number of ranks; 1 without a group."""
        return self.group.world_size if self.group is not None else 1

    @property
    def broken(self) -> bool:
        """Whether the running backward cannot be combined any more."""
        return self.failed or (self.group is not None and self.group.broken)

    def forget_layouts(self) -> None:
        """Drop hooks and layouts, which are of other parameters or of another group."""
        for handle in self._hooks.values():
            handle.remove()
        self._hooks, self._expected, self._layouts = {}, {}, {}

    # --- while a backward runs ------------------------------------------------------------------------------

    def begin(self, sending: Mapping[int, Tensor], norm_factor: Callable[[], Any] | None) -> None:
        """Begin the sum of one backward, of which `sending` was kept back, by number of the parameter.

        `norm_factor` gives what the noise meter multiplies the part's squared norm by; None where it is not
        measured.
        """
        self.failed = self.group is not None and self.group.broken
        self._layout, self._sent, self._arrived = None, 0, []
        self._sending, self._norm_factor = sending, norm_factor

    def listen(self, ordinal: int) -> None:
        """Send gradients of the backward number `ordinal` as they arrive."""
        self._hook()
        self._layout = self._expected.get(ordinal)
        if self._layout is not None:
            self._layout.begin()
        self.listens = True

    def _hook(self) -> None:
        """Listen to every parameter that may get a gradient, also to those that were just unfrozen."""
        for i, parameter in enumerate(self._parameters.all):
            if i not in self._hooks and parameter.requires_grad:
                self._hooks[i] = parameter.register_post_accumulate_grad_hook(self._on_arrival)

    def _on_arrival(self, parameter: Tensor) -> None:
        """Note that a gradient has arrived. Autograd calls this inside of backward."""
        if not self.listens or self.failed:
            return
        number = self._parameters.number[parameter]
        self._arrived.append(number)
        layout = self._layout
        if layout is None or not layout.overlaps or number not in layout.bucket_of:
            return
        layout.buckets[layout.bucket_of[number]].waiting -= 1
        while self._sent < len(layout.buckets) - 1 and layout.buckets[self._sent].waiting <= 0:
            self._send(layout)

    @torch.no_grad()
    def _send(self, layout: Layout) -> None:
        """Fill the next bucket and send it, unless it is the last, whose words are still missing."""
        bucket = layout.buckets[self._sent]
        self._sent += 1
        members = [self._parameters.all[i] for i in bucket.numbers]
        absent = [view for p, view in zip(members, bucket.views, strict=True) if p.grad is None]
        came = [(view, p.grad) for p, view in zip(members, bucket.views, strict=True) if p.grad is not None]
        if absent:
            torch._foreach_zero_(absent)
        if came:
            torch._foreach_copy_([view for view, _ in came], [local(gradient) for _, gradient in came])
        if members and self._meter.measures and self._norm_factor is not None:
            factor = self._norm_factor() / bucket.holders
            bucket.scale = self._meter.flat_part(bucket.gradients, members, bucket.views, factor)
        if self._sending:
            for i, view in zip(bucket.numbers, bucket.views, strict=True):
                if (kept := self._sending.get(i)) is not None:
                    view.add_(local(kept))
        if self._sent < len(layout.buckets):
            self._all_reduce(bucket)

    def _all_reduce(self, bucket: Bucket) -> None:
        """Send a bucket. Those of a sharded model leave together (`_exchange`): ranks agree on whether all did."""
        group = self.group
        assert group is not None
        if group.shards is not None:
            return
        try:
            with group.collective():
                bucket.work = group.all_reduce(bucket.flat)
        except GroupBroken:
            self.failed = True

    # --- after it -------------------------------------------------------------------------------------------

    def sum(self, ordinal: int, weight: Any, stale: Any, per_step: int) -> tuple[Layout, float] | None:
        """Put the sum over all replicas' parts into every parameter that any of them reached.

        `weight`: of this replica's parts; the sum is divided by all replicas' weights per `per_step` batches.
        `stale`: not 0 where this replica's loss was not of the kind that was agreed.

        Returns the buckets of the sum, and the sum of all replicas' noise meters; None where these buckets are
        not all of it.
        Raises `Again` where a replica is stale, GroupBroken, and Disagreement.
        """
        group = self.group
        assert group is not None
        reached = self._parameters.gradients.keys() | self._sending.keys()
        layout = self._layout
        if layout is None:  # the first time
            layout = self._expected[ordinal] = self._layout_of(self._reached_by_any(reached, group), group)
            layout.begin()
            # a gradient arrives twice where activations are computed anew
            twice = len(set(self._arrived)) < len(self._arrived)
            layout.overlaps = not any(flag for (flag,) in group.gather_ints([int(twice)])) and group.shards is None
        while self._sent < len(layout.buckets):
            self._send(layout)
        extra = len(reached - set(layout.numbers))
        missing = len(set(layout.numbers) - reached)
        guards = list(self._guard.words()) if self._guard is not None else [0] * GUARDS
        fill_words(layout.words, [extra, missing, weight, self._meter.local, stale, *guards])
        words = self._exchange(layout, group)
        self._check(words, guards, group)
        if words[STALE]:
            raise Again
        reached = self._reached_by_any(reached, group) if words[EXTRA] or words[MISSING] else reached
        self._take(layout, reached, words[WEIGHT] / per_step / group.copies)
        beyond = reached - set(layout.numbers)
        if not beyond:
            return layout, words[NORM]
        self._sum_beyond(beyond, words[WEIGHT] / per_step / group.copies, group)
        self._expected[ordinal] = self._layout_of(reached | set(layout.numbers), group)
        return None

    def forget(self, ordinal: int) -> None:
        """Expect nothing of the backward number `ordinal`."""
        self._expected.pop(ordinal, None)

    def _reached_by_any(self, reached: set[int], group: Group) -> set[int]:
        flags = torch.zeros(len(self._parameters.all), dtype=torch.int32)
        flags[list(reached)] = 1
        with group.collective():
            group.wait(group.all_reduce(flags), flags)
        return set(flags.nonzero().flatten().tolist())

    def _layout_of(self, numbers: set[int], group: Group) -> Layout:
        key = tuple(sorted(numbers))
        if key not in self._layouts:
            while len(self._layouts) >= MOST_LAYOUTS:
                gone = self._layouts.pop(next(iter(self._layouts)))
                self._expected = {n: layout for n, layout in self._expected.items() if layout is not gone}
            self._layouts[key] = self._new_layout(key, group)
        return self._layouts[key]

    def _new_layout(self, numbers: Iterable[int], group: Group) -> Layout:
        every, shards = self._parameters.all, group.shards
        held = None if shards is None else [holders(parameter, shards.count) for parameter in every]
        return Layout(numbers, locals_of(every), group.device, held)

    def _exchange(self, layout: Layout, group: Group) -> list[float]:
        """Send the last bucket, wait for all, and read the words."""
        self._all_reduce(layout.buckets[-1])
        if self.failed:
            raise GroupBroken
        with group.collective():
            if group.shards is not None:
                for bucket in layout.buckets:
                    bucket.work = group.column.all_reduce(bucket.flat)
            for bucket in layout.buckets:
                group.wait(bucket.work, bucket.flat)
            wait_for_devices(group, layout.devices)
        return group.over_replica(layout.words).tolist()

    def _check(self, words: Sequence[float], mine: Sequence[int], group: Group) -> None:
        """Compare the guard's words: they are alike if their sum is a multiple of each replica's own word."""
        for number, word in enumerate(mine):
            if self._guard is not None and words[FIRST_GUARD + number] != group.world_size * word:
                group.differ(self._guard.differs(number))

    def _take(self, layout: Layout, reached: set[int], weight: float) -> None:
        """Put the sum where optimizers look for it."""
        factor = to_one(weight)
        into, came = [], []
        for bucket in layout.buckets:
            if factor is not None and bucket.numbers:
                bucket.gradients.mul_(factor)
            for i, view in zip(bucket.numbers, bucket.views, strict=True):
                parameter = self._parameters.all[i]
                if i not in reached:
                    parameter.grad = None
                elif parameter.grad is None:
                    parameter.grad = like(parameter, torch.empty_like(local(parameter)).copy_(view))
                else:
                    into.append(local(parameter.grad))
                    came.append(view)
        if into:
            torch._foreach_copy_(into, came)

    def _sum_beyond(self, numbers: set[int], weight: float, group: Group) -> None:
        """Sum the gradients of parameters that nobody expected to be reached; they are not measured."""
        self._norm_factor = None
        layout = self._new_layout(numbers, group)
        self._sent = 0
        while self._sent < len(layout.buckets):
            self._send(layout)
        fill_words(layout.words, [0.0] * WORDS)
        self._exchange(layout, group)
        self._take(layout, numbers, weight)


def wait_for_devices(group: Group, devices: Iterable[torch.device]) -> None:
    """Wait for all-reduces on GPUs before the optimizer uses them: with NCCL a failed one raises nothing."""
    for device in devices:
        if device.type != "cuda":
            continue
        done, since_s = torch.cuda.current_stream(device).record_event(), time.monotonic()
        while not done.query():
            group.look_up(time.monotonic() - since_s)
            time.sleep(2e-5)  # short beside an all-reduce, and the core is free for others meanwhile
