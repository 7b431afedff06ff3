"""The session of a training script: what stands behind the objects that `coadapt.prepare` returns.

Three ways to run, chosen by the environment (docs/architecture.md, "The training process"):

* alone (`python train.py`): everything is handed back as it is;
* `torchrun train.py`: the script's processes form one group for good;
* managed (`managed_session.py`): a worker actor started this process and tells it whom to train with.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler

from .config import TrainingConfig
from .gradient_noise import GradientNoise, Preconditioner
from .group import Group, backend_for
from .learning_rate import lr_rule
from .loader import Micro, Source, Split, Step, sample_count, source_of
from .model import ElasticModel, Gradients, PassPlan
from .pace import Pace
from .prepared import Prepared
from .protocol import BatchPlan, Join
from .step_timer import StepTimer
from .stepping import ScaledOptimizers, adapt_scaler, adapt_scheduler
from .training_state import Position, TrainingState, buffers_of, diversify


class ElasticLoader:
    """The prepared training loader: yields this rank's micro-batches.

    Its length is in steps of the initial batch size, the unit in which LR schedules are written.
    """

    def __init__(self, loader: DataLoader[Any], batch_size: int, batches: Callable[[], Iterator[Any]]) -> None:
        self._loader = loader
        self._batch_size = batch_size
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self._batches()

    def __len__(self) -> int:
        samples = sample_count(self._loader)
        if samples is None:
            raise TypeError("this loader reads a stream of unknown length")
        return samples // self._batch_size if self._loader.drop_last else -(-samples // self._batch_size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class Session(Protocol):
    """What the front door needs of each way to run."""

    objects: tuple[Any, ...]

    @property
    def rank(self) -> int: ...

    @property
    def world_size(self) -> int: ...

    def epochs(self, count: int) -> Iterator[int]: ...

    def report(self, metrics: dict[str, float]) -> None: ...


class AloneSession:
    """`python train.py`: nothing is changed."""

    rank = 0
    world_size = 1

    def __init__(self, prepared: Prepared) -> None:
        self.objects = tuple(prepared.objects)

    def epochs(self, count: int) -> Iterator[int]:
        yield from range(count)

    def report(self, metrics: dict[str, float]) -> None:
        pass


class GroupSession:
    """Training in a process group: the part that `torchrun` and managed runs share."""

    def __init__(self, prepared: Prepared, config: TrainingConfig) -> None:
        self.config = config
        self.prepared = prepared
        self.device = prepared.device
        self.initial_batch_size = config.initial_batch_size or prepared.batch_size
        self.noise = GradientNoise(initial_batch_size=self.initial_batch_size)
        self.position = Position(schedule_credit=[0.0] * len(prepared.schedulers))
        self.state = TrainingState(
            prepared.module,
            prepared.optimizers,
            prepared.schedulers,
            prepared.scalers,
            prepared.users,
            self.noise,
            self.position,
        )
        self.timer = StepTimer(self.device)
        self.preconditioner = Preconditioner(*prepared.optimizers)
        self.gradients = Gradients(prepared.module, self.noise, self.preconditioner, self.timer)
        self.model = ElasticModel(prepared.module)
        self.model.train(prepared.module.training)
        self.source: Source = source_of(prepared.loader, self.epoch_seed, self.initial_batch_size)
        self.group: Group | None = None
        self.pace: Pace | None = None  # only on emulated nodes
        self.plan = BatchPlan(self.initial_batch_size)
        self.metrics: dict[str, float] = {}
        self.epoch_count: int | None = None
        self.in_iteration = False
        self._rules = {id(optimizer): lr_rule(config, optimizer) for optimizer in prepared.optimizers}
        self._loops_seen = 0
        self._in_epoch = False
        self._stepped = False
        self._step_samples: int | None = None  # of the running step
        self._adapt()

    # --- what the script calls -------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        return self.group.rank if self.group is not None else 0

    @property
    def world_size(self) -> int:
        return self.group.world_size if self.group is not None else 1

    def epochs(self, count: int) -> Iterator[int]:
        """Epochs that are still to do; the end of an epoch is passed by all ranks together."""
        if count < 1:
            raise ValueError(f"epochs: {count}; at least 1 is needed")
        self.epoch_count = count
        while self.position.epoch < count and not self.position.target_reached:
            epoch = self.position.epoch
            self._loops_seen = 0
            self._in_epoch = True
            yield epoch
            self._in_epoch = False
            self._end_epoch(epoch)

    def report(self, metrics: dict[str, float]) -> None:
        self.metrics.update(metrics)

    @property
    def completed(self) -> bool:
        """Whether all epochs asked for are done or the target is reached."""
        done = self.epoch_count is not None and self.position.epoch >= self.epoch_count
        return done or self.position.target_reached

    # --- what the script's optimizers, schedulers and scalers ask (`stepping.Stepping`) ------------------

    @property
    def schedule_credit(self) -> list[float]:
        return self.position.schedule_credit

    @property
    def step_happens(self) -> bool:
        return not self.gradients.partial and not self.gradients.undone

    @property
    def step_batch_size(self) -> int:
        """What the running step counts as: the rest of an epoch by its samples, at least as the initial batch."""
        full = self.split.batch_size
        return min(full, max(self._step_samples or full, self.initial_batch_size))

    @property
    def scale(self) -> float:
        """Batch size over initial batch size."""
        return self.step_batch_size / self.initial_batch_size

    @property
    def gain(self) -> float:
        batch_size = self.step_batch_size
        return (
            1.0 if batch_size == self.initial_batch_size else self.noise.gain(batch_size, self.initial_batch_size)
        )

    def lr_factor(self, optimizer: torch.optim.Optimizer) -> float:
        return self._rules[id(optimizer)].factor(self.scale, self.gain, self.epochs_done)

    def count_step(self) -> None:
        self._stepped = True

    # --- data ------------------------------------------------------------------------------------------

    @property
    def split(self) -> Split:
        return Split.of(self.plan, self.world_size)

    @property
    def epochs_done(self) -> float:
        size = self.source.size
        return self.position.epoch + (
            min(self.position.offset / size, 1.0) if size and not self.position.loop else 0.0
        )

    def epoch_seed(self, epoch: int) -> int:
        return self.config.seed + epoch

    def batches(self) -> Iterator[Any]:
        """The micro-batches of one loop over the training data, from where the training is."""
        if not self._in_epoch:
            raise RuntimeError("the training loader is iterated outside of `for epoch in coadapt.epochs(n)`")
        position = self.position
        if self._loops_seen < position.loop:  # done before this process joined or was restarted
            self._loops_seen += 1
            return
        here = position.epoch, position.loop
        micro: Micro | None = None
        step: Step | None = None
        while True:
            # The end of the data is no control point: whoever went on from there would run what follows the loop
            # without having been in it.
            if micro is not None and (step := micro.next_step()) is None:
                break
            if self._control_point():
                micro = None
            if (position.epoch, position.loop) != here:
                self._loops_seen += 1
                return  # the others were already further
            if micro is None:
                micro = self.source.begin(position.epoch, position.loop, position.offset, self.split, self.rank)
                step = micro.next_step()
            if step is None:
                break
            yield from self._step(step, micro)
            if self.gradients.undone:
                micro = None
            else:
                self._end_step(step)
        position.loop += 1
        position.offset = 0
        self._loops_seen += 1

    def _step(self, step: Step, micro: Micro) -> Iterator[Any]:
        """Yield the passes of one step to the script; ends early when the step is undone."""
        split = self.split
        parts = split.filled_parts(step.samples)
        measure = self._measures_noise()
        loss_scale = self._loss_scale() if measure else 1.0
        self._stepped = False
        self._step_samples = step.samples
        self.timer.start_step()
        self._step_started_s = time.perf_counter()
        for number, samples in enumerate(step.sizes):
            batch = micro.next_batch()
            last = number == len(step.sizes) - 1
            plan = PassPlan(samples, step.samples, parts, last, len(step.sizes))
            self.gradients.begin_pass(plan, number == 0, measure, loss_scale)
            self.in_iteration = True
            try:
                yield batch
            finally:
                self.in_iteration = False
            if self.gradients.undone:
                return

    def _end_step(self, step: Step) -> None:
        position, split = self.position, self.split
        sync_time_s = self._pace_step(len(step.sizes))
        if step.samples == split.batch_size:
            shape = self._nodes, self.world_size, split.local_bsz, split.passes - 1
            self.timer.end_step(*shape, sync_time_s=sync_time_s)
        position.offset += step.samples
        position.samples += step.samples
        position.iterations += 1
        if self._stepped:
            position.steps += 1
            # A rest smaller than the initial batch makes its share of a step's progress.
            share = min(1.0, step.samples / self.step_batch_size)
            position.progress_samples += self.gain * self.initial_batch_size * share
        self._step_samples = None
        self.gradients.update_noise()

    def _measures_noise(self) -> bool:
        return False

    def _loss_scale(self) -> float:
        return float(self.prepared.scalers[0].get_scale()) if self.prepared.scalers else 1.0

    def _pace_step(self, passes: int) -> float | None:
        """On an emulated node, wait until its GPU type would be done; the part of that spent on all-reduce, s."""
        if self.pace is None:
            return None
        shape = self._nodes, self.world_size, self.split.local_bsz, passes - 1
        self.pace.wait(self._step_started_s, *shape)
        return self.pace.sync_time_s(*shape)

    @property
    def _nodes(self) -> int:
        return self.group.nodes if self.group is not None else 1

    def _control_point(self) -> bool:
        """Do what the ranks agree on before the next step. True when group, batch plan or position changed."""
        return False

    def _end_epoch(self, epoch: int) -> None:
        self.position.epoch, self.position.loop, self.position.offset = epoch + 1, 0, 0

    def _adapt(self) -> None:
        ScaledOptimizers(self.prepared.optimizers, self)
        for index, scheduler in enumerate(self.prepared.schedulers):
            adapt_scheduler(scheduler, index, self)
        for scaler in self.prepared.scalers:
            adapt_scaler(scaler, self)

    def _prepared_objects(self) -> tuple[Any, ...]:
        loader = ElasticLoader(self.prepared.loader, self.initial_batch_size, self.batches)
        given = self.prepared.loader
        return tuple(
            loader if item is given else self.model if isinstance(item, torch.nn.Module) else item
            for item in self.prepared.objects
        )


class TorchrunSession(GroupSession):
    """`torchrun train.py`: one group for the whole run, the script's own global batch size.

    A loader whose sampler shards by itself is iterated as it is; any other is sharded here.
    """

    def __init__(self, prepared: Prepared) -> None:
        super().__init__(prepared, TrainingConfig())
        if not dist.is_initialized():
            dist.init_process_group(backend_for(self.device))
        world = dist.get_world_size()
        local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
        join = Join(
            0, dist.get_rank(), world, max(1, world // local), int(os.environ.get("LOCAL_RANK", 0)), local, "", 0
        )
        self.group = Group(join, self.device, {})
        self._sampler = prepared.loader.sampler
        tensors: list[Tensor] = [*prepared.module.parameters(), *buffers_of(prepared.module)]
        self.group.broadcast_tensors(tensors, 0)
        diversify(torch.initial_seed(), self.rank) if self.rank else None
        local_bsz = -(-self.initial_batch_size // world)
        self.plan = BatchPlan(local_bsz, 0, self.initial_batch_size)
        self.model.run_in(self.gradients.attach(self.group, prepared.ddp))
        self.objects = self._prepared_objects()

    def epoch_seed(self, epoch: int) -> int:
        if isinstance(self._sampler, DistributedSampler):
            return self._sampler.seed + self._sampler.epoch
        return super().epoch_seed(epoch)

    def _control_point(self) -> bool:
        if self.gradients.undone:
            raise RuntimeError("a process of this torchrun group is gone")
        return False
