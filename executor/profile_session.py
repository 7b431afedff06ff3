"""Profile mode: the script's own training step, timed at one local batch size after the other.

One replica, no group, nothing saved. The script trains as usual; the loader feeds it ever larger batches and ends
the process when the plan is done. It ends also where memory runs out: nobody knows what the error has left on the
GPU, so the executor starts another process, which goes on with the plan.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from . import protocol
from .channel import Channel
from .config import TrainingConfig
from .gradient_noise import MIN_PRECONDITIONER_STEPS
from .group import Group, backend_for
from .loader import Micro, Split
from .managed_session import Leaving, ready, warm_up
from .pace import Pace
from .prepared import Prepared
from .profiling import profile_plan
from .protocol import BatchPlan, Join, Profiled, ProfileProgress, Stop, Trying
from .session import GroupSession
from .step_timer import StepTimer


class ProfileSession(GroupSession):
    """Walks the loader through the sizes of a `ProfilePlan`, sending `Trying` before and `Profiled` after each."""

    def __init__(self, prepared: Prepared, config: TrainingConfig, channel: Channel) -> None:
        super().__init__(prepared, config)
        self.channel = channel
        gpu_type = os.environ.get(protocol.GPU_TYPE, "cpu")
        self.pace = Pace.from_env(os.environ)
        earlier = os.environ.get(protocol.PROFILE_JSON)
        progress = ProfileProgress.from_json(earlier) if earlier else protocol.NOTHING_PROFILED
        self.sizes = profile_plan(config, gpu_type, self.pace, progress)
        self.trying: int | None = None  # the local batch size that is being measured
        self._warming_up = False
        self._micro: Micro | None = None
        warm_up(self.device)
        dist.init_process_group(backend_for(self.device), store=dist.HashStore(), rank=0, world_size=1)
        self.group = Group(Join(0, 0, 1, 1, 0, 1, "", 0), self.device, {})
        self.model.run_in(self.gradients.attach(self.group, prepared.ddp))
        self.objects = self._prepared_objects()
        channel.send(ready(prepared, self.initial_batch_size, False))

    def batches(self) -> Iterator[Any]:
        """Every size of the plan, warm-up first; raises `Leaving` after the last."""
        limit = self.source.size
        # The steps before the first size is timed go on until the second moments are in use, too.
        more_warmup = 0 if self.preconditioner.identity else MIN_PRECONDITIONER_STEPS
        while (wanted := self.sizes.next()) is not None and not (limit and wanted.local_bsz > limit):
            self.plan = BatchPlan(wanted.local_bsz)
            self._micro = None
            self.trying = wanted.local_bsz
            self.channel.send(Trying(wanted.local_bsz))
            warmup, more_warmup = wanted.warmup + more_warmup, 0
            self.timer = self.gradients.timer = StepTimer(self.device, warmup=warmup)
            for number in range(warmup + wanted.timed):
                self._warming_up = number < warmup
                if self.channel.take(Stop) is not None:
                    raise Leaving
                yield from self._timed_step()
            row = self._row()
            if row is None:
                break
            self.trying = None
            self.sizes.record(row)
            self.channel.send(Profiled(row))
        raise Leaving

    def _timed_step(self) -> Iterator[Any]:
        step = self._micro.next_step() if self._micro is not None else None
        # Sizes are whole batches: what is left of an epoch is too short to be timed.
        while self._micro is None or step is None or step.samples < self.split.batch_size:
            self._micro = self._source_from_start(self.split)
            step = self._micro.next_step()
            if step is None or step.samples < self.split.batch_size:
                raise Leaving
        yield from self._step(step, self._micro)
        self._end_step(step)

    def _source_from_start(self, split: Split) -> Micro:
        self.position.loop += 1
        return self.source.begin(0, self.position.loop, 0, split, 0)

    def _measures_noise(self) -> bool:
        """Where it is not timed: training keeps gradients of earlier steps for it, which have to fit, too."""
        return self._warming_up

    def _row(self) -> protocol.StepRow | None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        rows = self.timer.rows()
        return rows[0] if rows else None
