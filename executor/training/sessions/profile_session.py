"""Profile mode: the script's own training step, timed at one local batch size after the other.

There is one replica and no group, and nothing is saved. The script trains as usual. The loader feeds it ever
larger batches, and ends the process when the plan is done.
The process ends also where memory runs out, because nobody knows what the error has left on the GPU. The
executor then starts another process, which goes on with the plan.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from ....core.batch_plan import BatchPlan
from ....core.reports import NOTHING_PROFILED, MeasuredInput, ProfileProgress
from ....core.training_config import TrainingConfig
from ....estimators.profile_plan import profile_plan
from ...protocol import messages
from ...protocol.messages import Join, Profiled, ProfiledInput, Stop, Trying
from ..collective.group import Group, backend_for
from ..data.batches import Place, Reader
from ..gradients.gradient_noise import MIN_PRECONDITIONER_STEPS
from ..gradients.step_timer import StepTimer
from ..losses.loss_kind import Kind
from ..state.prepared import Prepared
from ..variables.own_code import reads_batches
from .channel import Channel
from .emulated_use import pace_of_process
from .group_session import GroupSession
from .input_profiling import InputProfiling, TooFew
from .membership import Leaving
from .start_up import ready, warm_up

MOST_IDLE_PASSES = 3  # in a row, in which the script takes no batch
NOT_TAKEN = (
    "passes of coadapt.epochs took no batch of the loader that prepare returned; iterate over that one in the loop"
)


class ProfileSession(GroupSession):
    """Walks the loader through the sizes of a `ProfilePlan`, and sends `Trying` before each, `Profiled` after."""

    def __init__(
        self, prepared: Prepared, config: TrainingConfig, channel: Channel, loss: Kind = Kind.UNKNOWN
    ) -> None:
        super().__init__(prepared, config, loss)
        self.channel = channel
        gpu_type = os.environ.get(messages.GPU_TYPE, "cpu")
        self.course.pace = pace = pace_of_process(channel)
        earlier = os.environ.get(messages.PROFILE_JSON)
        progress = ProfileProgress.from_json(earlier) if earlier else NOTHING_PROFILED
        self._earlier = progress
        self.sizes = profile_plan(config, gpu_type, pace, progress, self.scale.least_local_bsz)
        self.trying: int | None = None  # the local batch size that is being measured
        self._warming_up = False
        self._idle_passes = 0
        # The steps before the first size is timed go on until the second moments are in use, too.
        self._more_warmup = 0 if self.preconditioner.identity else MIN_PRECONDITIONER_STEPS
        self._steps_left: list[bool] = []  # for each step of the size being measured, whether it is warm-up
        warm_up(self.device)
        dist.init_process_group(backend_for(self.device), store=dist.HashStore(), rank=0, world_size=1)
        self.peers.group = Group(Join(0, 0, 1, 1, 0, 1, "", 0), self.device, {})
        self.gradients.attach(self.peers.group)
        self.position.whole = not self.source.fusable
        channel.send(ready(prepared, self.scale.script_batch, self.source.size, False))

    @property
    def divides(self) -> bool:
        return self.plan.local_bsz != self.scale.script_batch

    @property
    def completed(self) -> bool:
        """Whether to end: never, since epochs and steps go on until all is measured, which raises `Leaving`."""
        return False

    def end_pass(self, epoch: int) -> None:
        self.raise_failure()
        self._idle_passes += 1
        if self._idle_passes > MOST_IDLE_PASSES:  # it would go on until the time for a profile run is over
            raise RuntimeError(NOT_TAKEN)
        self.position.epoch = epoch + 1
        self.position.loop = self.position.batch = self.position.offset = 0

    def show(self, progress: float, count: int) -> int:
        """Return the first number: passes of any length are no epochs."""
        return 0

    @reads_batches
    def read_on(self) -> Generator[Any, None, bool]:
        """Yield batches of the size being measured, and of the next ones. Raises `Leaving` after the last."""
        reader: Reader | None = None
        restarts = 0
        while True:
            if not self._steps_left:
                self._next_size()
                reader = None
            if self.channel.take(Stop) is not None:
                raise Leaving
            if reader is None:
                self.position.loop += 1
                self.position.batch = self.position.offset = 0
                place = Place(0, self.position.loop, 0, 0)
                reader, restarts = self.source.begin(place, self.scale.split, 0, None), restarts + 1
            unit = reader.take()
            # Sizes are whole batches: what is left of an epoch is too short to be timed.
            if unit is None or (self.source.fusable and unit.samples < self.scale.split.unit):
                if restarts > 1:
                    raise Leaving  # the data has no batch of this size
                reader = None
                continue
            restarts = 0
            self._warming_up = self._steps_left.pop(0)
            self._idle_passes = 0
            yield from self.parts.hand_out(unit, last=True)
            if not self._steps_left:
                self._measured()

    def _next_size(self) -> None:
        wanted = self.sizes.next()
        size = self.source.size
        if wanted is None or (size is not None and wanted.local_bsz > size):
            self._measure_input()
            raise Leaving
        self.scale.plan = BatchPlan(wanted.local_bsz)
        self.trying = wanted.local_bsz
        self.channel.send(Trying(wanted.local_bsz))
        warmup, self._more_warmup = wanted.warmup + self._more_warmup, 0
        self.gradients.timer = StepTimer(self.device, warmup=warmup)
        self._steps_left = [True] * warmup + [False] * wanted.timed

    def _measured(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        rows = self.gradients.timer.rows()
        if not rows:
            raise Leaving
        row = replace(rows[0], local_bsz=self.plan.local_bsz)
        self.trying = None
        self.sizes.record(row)
        self.channel.send(Profiled(row, asked_samples=self._asked_samples))

    def _measure_input(self) -> None:
        """Measure how fast loader workers are, where the script has some and CPUs are known."""
        most = int(os.environ.get(messages.LOADER_WORKERS) or 0)
        known = self._earlier.input
        if most < 1 or not self.source.workers or (known is not None and known.done):
            return
        part = int(os.environ.get(messages.PART_CPUS) or 1)
        with suppress(TooFew):  # a data set of a few batches says nothing
            InputProfiling(self.source, self.scale.script_batch, most, known, self._tell_input, part).run()

    def _tell_input(self, measured: MeasuredInput) -> None:
        self.channel.send(ProfiledInput(measured))

    @property
    def _asked_samples(self) -> float | None:
        """Samples that all loops of the script until now ask for, at its own batch size."""
        if self.loop.step_count is not None:
            return self.loop.step_count * self.scale.script_batch
        if self.loop.epoch_count is None or self.source.size is None:
            return None
        return self.loop.epoch_count * self.source.size

    def measures_noise(self) -> bool:
        """Return whether the noise is measured, though only in steps that are not timed.

        Training keeps gradients of earlier steps for it, which have to fit in memory, too.
        """
        return self._warming_up
