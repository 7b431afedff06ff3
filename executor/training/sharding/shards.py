"""The processes of one replica: together they hold a model, and they do everything together.

Torch's default group is theirs, and it is never formed anew. So meshes that a script has made, of FSDP and of
tensor parallelism, stay as they are while replicas come and go. A replica that loses a process is lost.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ...protocol import messages

# How long a process waits for the others of its replica: they save and evaluate together.
TIMEOUT = timedelta(hours=2)
_Said = TypeVar("_Said")
_GLOO_OR_NCCL = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")


class ReplicaLost(BaseException):
    """Unwinds the script where another process of this replica is gone; the replica is lost with it."""


class Shards:
    """This process's place, `index`, among the `count` processes of its replica.

    copies: processes that compute the same samples together, as those of tensor parallelism do.
    copy: this one's number among them. part: of which samples of its replica's it has.
    """

    def __init__(self, index: int, count: int) -> None:
        self.index, self.count = index, count
        self.copies, self.copy, self.part = 1, 0, index
        self._group: dist.ProcessGroup | None = None  # of the same processes, on the CPU

    def take_place(self, part: int, parts: int) -> None:
        """Note which of a replica's `parts` of a batch this process has; all processes call this."""
        same = [other for other, (one,) in enumerate(self.told_by_all([part])) if one == part]
        self.copies, self.copy, self.part = self.count // parts, same.index(self.index), part

    def all_say(self, mine: bool) -> bool:
        """Return whether all processes of the replica say so; every one of them calls this. Raises ReplicaLost."""
        return int(self.total(torch.tensor([int(mine)]))) == self.count

    def total(self, tensor: Tensor) -> Tensor:
        """Add up a tensor over the replica, in place; every process of it calls this. Raises ReplicaLost.

        It goes over the CPU, also where the script has made a group for GPUs only.
        """
        if self.count == 1:
            return tensor
        try:
            travels = tensor.cpu()
            dist.all_reduce(travels, group=self.group)
        except RuntimeError as error:
            raise ReplicaLost(str(error)) from None
        return tensor if travels is tensor else tensor.copy_(travels)

    @property
    def group(self) -> dist.ProcessGroup:
        """The processes of the replica, on the CPU. All of them ask for it first at the same time."""
        if self._group is None:
            self._group = dist.new_group(backend="gloo", timeout=TIMEOUT)
        return self._group

    def said_by_all(self, mine: _Said) -> list[_Said]:
        """Return what each process of the replica says, by its index; every one calls this. Raises ReplicaLost."""
        said: list[Any] = [None] * self.count
        try:
            dist.all_gather_object(said, mine, group=self.group)
        except RuntimeError as error:
            raise ReplicaLost(str(error)) from None
        return said

    def told_by_all(self, mine: Sequence[int]) -> list[list[int]]:
        """Return what each process of the replica tells, by its index. Raises ReplicaLost."""
        told = torch.zeros(self.count, len(mine), dtype=torch.int64)
        told[self.index] = torch.tensor(mine)
        return [[int(word) for word in words] for words in self.total(told)]


def of_environment() -> Shards | None:
    """Return this process's place as its worker says; None where a replica is one process."""
    count = os.environ.get(messages.SHARDS)
    return None if count is None else Shards(int(os.environ.get(messages.SHARD, "0")), int(count))


def comes_of_a_lost_peer(error: BaseException) -> bool:
    """Return whether an error tells of a connection to another process of the replica that is gone."""
    if isinstance(error, ReplicaLost):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _GLOO_OR_NCCL)
