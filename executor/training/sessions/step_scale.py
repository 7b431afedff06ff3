"""Knows how large the running step is, and how many of the script's own steps it is worth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ....core.batch_plan import BatchPlan
from ..data.units import Split
from ..gradients.gradient_noise import GradientNoise
from ..losses.loss_weights import LossWeights
from .loop_state import LoopState
from .peers import Peers


class StepScale:
    """Divides batches by the batch plan in force, and weighs the steps that come of it.

    script_batch: samples of one of the script's own batches.
    least_local_bsz: samples that each replica is given at least.
    """

    def __init__(
        self,
        script_batch: int,
        least_local_bsz: int,
        loop: LoopState,
        peers: Peers,
        weights: LossWeights,
        noise: GradientNoise,
    ) -> None:
        self.script_batch, self.least_local_bsz = script_batch, least_local_bsz
        self.plan = BatchPlan(script_batch)
        self._loop, self._peers, self._weights, self._noise = loop, peers, weights, noise
        self._position, self._step = loop.position, loop.step
        self._split_of: tuple[Any, ...] = ()
        self._split = Split(1, script_batch)

    @property
    def split(self) -> Split:
        """The split by which a batch is divided now."""
        position, weights, loop = self._position, self._weights, self._loop
        whole, undivided = weights.whole or weights.trial, weights.undivided or loop.by_next
        width, copies = self._peers.data_width, self._peers.copies
        of = (
            self.plan,
            width,
            copies,
            self._peers.processes,
            position.per_step,
            position.whole,
            whole,
            undivided,
            loop.one_pass,
        )
        if of != self._split_of:
            self._split_of = of
            split = Split.of(
                self._plan_of_ranks(),
                width,
                self.script_batch,
                per_step=position.per_step,
                fused=not position.whole,
                undivided=undivided,
                single=loop.one_pass,
            )
            least = split.unit if whole else min(self.least_local_bsz, split.local_bsz)
            self._split = replace(split, least=least, copies=copies)
        return self._split

    def _plan_of_ranks(self) -> BatchPlan:
        """Return the plan for ranks, each of which takes a part of its replica's local batch."""
        plan, processes = self.plan, self._peers.processes // self._peers.copies
        if processes == 1:
            return plan
        total = plan.batch_size or self._peers.replicas * plan.local_bsz * (plan.accumulation + 1)
        return BatchPlan(-(-plan.local_bsz // processes), plan.accumulation, total)

    @property
    def local_bsz(self) -> int:
        """Samples of a replica in one pass over a whole batch."""
        split, processes = self.split, self._peers.processes
        return split.local_bsz if processes == 1 else -(-split.unit // (self._peers.replicas * split.passes))

    @property
    def initial_batch_size(self) -> int:
        """Samples of one of the script's own steps."""
        return self.script_batch * self._position.per_step

    @property
    def full_batch_size(self) -> int:
        """Samples of a step that the end of the data does not cut short."""
        split, position = self.split, self._position
        return split.unit * split.merged * (position.per_step if position.whole else 1)

    @property
    def step_batch_size(self) -> int:
        """Samples that the running step counts as.

        At the end of an epoch these are what is left of it, but at least the initial batch size.
        """
        full = self.full_batch_size
        done = self._step.samples
        return min(full, max(done, self.initial_batch_size)) if self._step.ahead else full

    @property
    def scale(self) -> float:
        """Batch size over initial batch size."""
        return self.step_batch_size / self.initial_batch_size

    @property
    def gain(self) -> float:
        """Progress of the running step in steps of the initial batch size."""
        size, initial = self.step_batch_size, self.initial_batch_size
        return 1.0 if size <= initial else self._noise.gain(size, initial)

    @property
    def step_progress(self) -> float:
        """The progress that each of the script's steps in the running one counts for."""
        return self.gain / self.split.merged

    @property
    def progress_per_sample(self) -> float:
        """Progress of a sample of the running step, relative to one at the initial batch size."""
        return self.progress_per_sample_of(self.step_batch_size)

    def progress_per_sample_of(self, size: int) -> float:
        """Return the same for a step of `size` samples."""
        initial = self.initial_batch_size
        return 1.0 if size <= initial else min(1.0, self._noise.gain(size, initial) * initial / size)

    @property
    def units_per_step(self) -> int:
        """Batches whose gradients are combined together."""
        merged = self.split.merged
        return merged * self._position.per_step if merged > 1 else 1

    @property
    def added_up(self) -> int:
        """The number of these batches that the script adds up to one step of its own."""
        return self._position.per_step if self.split.merged > 1 else 1
