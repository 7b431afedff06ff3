"""Training under `torchrun`: the script's processes form one group for good."""

from __future__ import annotations

import os
import zlib

import torch
import torch.distributed as dist
from torch import Tensor

from ....core.batch_plan import BatchPlan
from ....core.training_config import TrainingConfig
from ...protocol.messages import Join
from ..collective.group import Group, backend_for
from ..collective.sharded_group import ShardedGroup
from ..data.batches import Unit
from ..losses.loss_kind import Kind
from ..state.prepared import Prepared
from ..state.training_state import diversify
from ..variables.script_undo import Undo
from .group_session import GroupSession

CHANGED_BY_ITSELF = (
    "the script has changed parameters by what it computed of its own part of the data, without a step of an "
    "optimizer that prepare was given; every process has others now"
)


class TorchrunSession(GroupSession):
    """`torchrun train.py`: one group for the whole run, and the script's own global batch size.

    A loader whose sampler shards by itself is iterated as it is; any other is sharded here.
    """

    def __init__(self, prepared: Prepared, loss: Kind = Kind.UNKNOWN) -> None:
        super().__init__(prepared, TrainingConfig(), loss)
        self._before: Undo | None = None  # of the running batch
        if not dist.is_initialized():
            dist.init_process_group(backend_for(self.device))
        world = dist.get_world_size()
        local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
        join = Join(
            0, dist.get_rank(), world, max(1, world // local), int(os.environ.get("LOCAL_RANK", 0)), local, "", 0
        )
        shards = prepared.shards
        group = Group(join, self.device, {}) if shards is None else ShardedGroup(join, self.device, shards)
        self.peers.group = group
        (self.script_seed,) = group.broadcast_ints([self.script_seed])
        trained = prepared.parameters() if shards is None else []
        tensors: list[Tensor] = [*trained, *prepared.buffers()]
        group.broadcast_tensors(tensors, 0)
        if self.peers.seed_rank:
            diversify(torch.initial_seed(), self.peers.seed_rank)
        script_batch = self.scale.script_batch
        self.scale.plan = BatchPlan(-(-script_batch // group.replicas), 0, script_batch)
        self.gradients.attach(group)

    def open_unit(self, unit: Unit) -> None:
        self._before = Undo(reading=self.prepared.reading_generators()) if self.world_size > 1 else None

    def step_undone(self) -> None:
        if self._before is not None:  # the script's own counters, too
            self._before.restore()

    def control_point(self) -> bool:
        group = self.group
        if group is not None and group.broken:
            raise RuntimeError("a process of this torchrun group is gone")
        if group is not None:
            self.same.align(group)
        self.same.take_in_new()
        return False

    def after_loop(self) -> None:
        group = self.group
        if group is None:
            return
        if self.position.steps == 0 and self.world_size > 1 and group.shards is None:
            sums = [_checksum(p.detach()) for p in self.prepared.parameters()]
            if len({tuple(told) for told in group.gather_objects(sums)}) > 1:
                raise RuntimeError(CHANGED_BY_ITSELF)
        self.same.sync_buffers()


def _checksum(value: Tensor) -> int:
    """Return the CRC-32 of a tensor's bytes."""
    return zlib.crc32(value.cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
