"""A generation of a job whose replicas are several processes each.

Torch's default group is that of the replica's processes, and outlives generations (`sharding/shards.py`). Two
others are made beside it: that of all ranks, and that of the ranks which hold the same shard of each replica.

The processes of a replica go on together or not at all: a forward of one waits for the others. So they agree
after each collective on whether it succeeded for all of them, and `broken` is what they have agreed on.
A rank that waits in a column never hears of a failure in another one. So a failure is told through the store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ...protocol.messages import Join
from ..sharding.shards import Shards
from .group import (
    COLLECTIVE_TIMEOUT,
    FORM_TIMEOUT,
    LEAVE_S,
    Group,
    GroupBroken,
    open_sockets,
    wait_for_members,
)

FAILED = "failed"  # the store has this key as soon as a collective has failed for a rank
ASK_S = 0.3  # a wait as long as this asks the store


class ShardedGroup(Group):
    """A formed group of whole replicas. Ranks count shards first: rank = replica x processes + shard."""

    def __init__(
        self,
        join: Join,
        device: torch.device,
        shards: Shards,
        sockets: dict[int, int] | None = None,
        store: dist.Store | None = None,
        everyone: Backends | None = None,
        same_shard: Backends | None = None,
    ) -> None:
        """Make a group. `everyone` None: torch's default group is that of all ranks, which are one replica."""
        self._gave_up = False
        super().__init__(join, device, sockets or {}, store)
        self._store = store
        self.shards = shards
        self._everyone = everyone
        self._column = Column(self, join, same_shard)

    @classmethod
    def form_beside(
        cls,
        join: Join,
        device: torch.device,
        store: Callable[[], dist.Store],
        shards: Shards,
        given_up: Callable[[], bool],
    ) -> ShardedGroup:
        """Meet the members of `join.generation`, all of this replica or none.

        Raises `Superseded` and `GroupBroken` as `Group.form` does, and ValueError for ranks that are no whole
        replicas.
        """
        if join.world_size % shards.count or join.rank % shards.count != shards.index:
            raise ValueError(
                f"gpus_per_replica: rank {join.rank} of {join.world_size} cannot be shard {shards.index} of "
                f"replicas of {shards.count} processes; the ranks of a group are whole replicas, shards first"
            )
        group = None
        try:
            group = cls._form(join, device, store, shards, given_up)
        finally:
            formed = shards.all_say(group is not None)
        assert group is not None
        if not formed:
            group.fail()
            group.end()
            raise GroupBroken("another process of this replica could not join")
        return group

    @classmethod
    def _form(
        cls,
        join: Join,
        device: torch.device,
        store: Callable[[], dist.Store],
        shards: Shards,
        given_up: Callable[[], bool],
    ) -> ShardedGroup:
        replica, replicas = join.rank // shards.count, join.world_size // shards.count
        try:
            prefixed = dist.PrefixStore(f"g{join.generation}/", store())
            wait_for_members(prefixed, join, given_up)
            before = open_sockets()
            everyone = Backends(dist.PrefixStore("all/", prefixed), join.rank, join.world_size, None)
            same = dist.PrefixStore(f"shard{shards.index}/", prefixed)
            column = Backends(same, replica, replicas, device) if replicas > 1 else None
            opened = {fd: inode for fd, inode in open_sockets().items() if before.get(fd) != inode}
            return cls(join, device, shards, opened, prefixed, everyone, column)
        except (RuntimeError, OSError) as error:
            raise GroupBroken(str(error)) from None

    @property
    def column(self) -> Group:
        return self._column

    @property
    def _failed(self) -> bool:
        """Whether this rank's part of the group has failed; others of its replica may not know of it yet."""
        return self._gave_up or self.broken

    @_failed.setter
    def _failed(self, failed: bool) -> None:
        self._gave_up = failed

    def fail(self) -> None:
        super().fail()
        for backends in (self._everyone, self._column.backends):
            if backends is not None:
                backends.abort()

    def end(self) -> None:
        """Leave the group. What is left of it ends in a thread of its own, as in `leave_group`."""
        last = [self._everyone, self._column.backends]
        self._everyone = self._column.backends = None
        thread = threading.Thread(target=last.clear, name="coadapt-leave-group", daemon=True)
        thread.start()
        thread.join(LEAVE_S)

    @contextmanager
    def collective(self) -> Iterator[None]:
        """Do the same as `Group.collective`, and agree with the replica on how it ended."""
        assert self.shards is not None
        try:
            with super().collective():
                yield
        except GroupBroken:
            self._tell_failure()
            self._agree(False)
            raise
        if not self._agree(True):
            raise GroupBroken("a collective failed for another process of this replica")

    def look_up(self, waited_s: float = 0.0) -> None:
        super().look_up(waited_s)
        if waited_s >= ASK_S and self._hears_of_failure():
            self.fail()
            raise GroupBroken("a collective failed for another process of this group")

    def _tell_failure(self) -> None:
        if self._store is not None:
            with suppress(RuntimeError, OSError):
                self._store.set(FAILED, "")

    def _hears_of_failure(self) -> bool:
        with suppress(RuntimeError, OSError):
            return self._store is not None and self._store.check([FAILED])
        return False

    def _agree(self, fine: bool) -> bool:
        assert self.shards is not None
        if not self.shards.all_say(fine):
            self.broken = True
            self.fail()
        return not self.broken

    def all_reduce(self, tensor: Tensor) -> Any:
        return self._everyone.all_reduce(tensor) if self._everyone is not None else super().all_reduce(tensor)

    def _broadcast(self, tensor: Tensor, source: int) -> Any:
        if self._everyone is None:
            return super()._broadcast(tensor, source)
        return self._everyone.broadcast(tensor, source)

    def _all_gather(self, everyone: list[Tensor], mine: Tensor) -> Any:
        if self._everyone is None:
            return super()._all_gather(everyone, mine)
        return self._everyone.all_gather(everyone, mine)


class Column(Group):
    """The ranks that hold the same shard, one of each replica. It is part of a group, and breaks with it."""

    def __init__(self, whole: ShardedGroup, join: Join, backends: Backends | None) -> None:
        self._whole, self.backends = whole, backends
        shards = whole.shards
        assert shards is not None
        ranks = join.rank // shards.count, join.world_size // shards.count
        super().__init__(
            Join(join.generation, *ranks, join.nodes, 0, 1, join.store_host, join.store_port), whole.device, {}
        )

    @property
    def broken(self) -> bool:
        return self._whole.broken

    @broken.setter
    def broken(self, broken: bool) -> None:
        """Leave it to the group: what a new column begins with holds for the group, too."""

    def fail(self) -> None:
        self._whole.fail()

    @contextmanager
    def collective(self) -> Iterator[None]:
        with self._whole.collective():
            yield

    def wait(self, work: Any, tensor: Tensor) -> None:
        self._whole.wait(work, tensor)

    def look_up(self, waited_s: float = 0.0) -> None:
        self._whole.look_up(waited_s)

    def all_reduce(self, tensor: Tensor) -> Any:
        return self.backends.all_reduce(tensor) if self.backends is not None else _Done()

    def _broadcast(self, tensor: Tensor, source: int) -> Any:
        assert self.backends is not None
        return self.backends.broadcast(tensor, source)

    def _all_gather(self, everyone: list[Tensor], mine: Tensor) -> Any:
        assert self.backends is not None
        return self.backends.all_gather(everyone, mine)


class Backends:
    """Connections of a group that is not torch's: gloo for the CPU and, where `device` is a GPU, NCCL for that."""

    def __init__(self, store: dist.Store, rank: int, size: int, device: torch.device | None) -> None:
        self._gloo = dist.ProcessGroupGloo(dist.PrefixStore("cpu/", store), rank, size, FORM_TIMEOUT)
        self._gloo._set_default_timeout(COLLECTIVE_TIMEOUT)
        self._nccl: Any = None
        if device is not None and device.type == "cuda":
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = timedelta(hours=2)
            self._nccl = dist.ProcessGroupNCCL(dist.PrefixStore("cuda/", store), rank, size, options)

    def _of(self, tensor: Tensor) -> Any:
        return self._nccl if tensor.is_cuda and self._nccl is not None else self._gloo

    def all_reduce(self, tensor: Tensor) -> Any:
        return self._of(tensor).allreduce([tensor])

    def broadcast(self, tensor: Tensor, source: int) -> Any:
        options = dist.BroadcastOptions()
        options.rootRank = source
        return self._of(tensor).broadcast([tensor], options)

    def all_gather(self, everyone: list[Tensor], mine: Tensor) -> Any:
        return self._of(mine).allgather([everyone], [mine])

    def abort(self) -> None:
        """End what runs on a GPU; gloo ends with its sockets."""
        if self._nccl is not None:
            with suppress(Exception):
                self._nccl.abort()


class _Done:
    """A collective of one rank."""

    def wait(self, *_: Any) -> None:
        return

    def is_completed(self) -> bool:
        return True
