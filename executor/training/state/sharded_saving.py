"""A checkpoint that the processes of a replica write together: each its own shards, the first one all the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import Tensor

from ..sharding.shards import Shards
from ..sharding.stored import taken_out
from .checkpoint import CheckpointStore
from .checkpoint_errors import CheckpointError
from .packing import pack

_Done = TypeVar("_Done")


class ShardedSaving:
    """Saves states of sharded models in `store`. What fails for one process fails for all of the replica."""

    def __init__(self, store: CheckpointStore, shards: Shards) -> None:
        self._store, self._shards = store, shards

    def save(self, state: dict[str, Any], steps: int, parameters: Sequence[Tensor]) -> str | None:
        """Write, verify and publish a checkpoint; returns its path on the first process, None on the others.

        All processes of the replica call this. Raises as `CheckpointStore.save` does, and ReplicaLost.
        """
        rest, tensors = taken_out(state, parameters)
        packed = self._all_do(lambda: pack(rest))

        def write() -> str | None:
            return self._write(packed, tensors, steps)

        return self._store.patiently(write)

    def _write(self, packed: Any, tensors: dict[str, Any], steps: int) -> str | None:
        store, shards = self._store, self._shards
        first = shards.index == 0
        entry = shards.said_by_all(store.new_name(steps))[0]
        try:
            mine = self._all_do(lambda: store.write_shards(entry, tensors, shards.group))
            written = {name: measured for files in shards.said_by_all(mine) for name, measured in files.items()}
            return self._all_do(lambda: store.publish(entry, packed, written) if first else None)
        except CheckpointError:
            if first:
                store.discard(entry)
            raise

    def _all_do(self, do: Callable[[], _Done]) -> _Done:
        """Return what comes of something that all processes do. Raises on all of them what one of them raises."""
        done: list[_Done] = []
        failure: CheckpointError | None = None
        try:
            done.append(do())
        except CheckpointError as error:
            failure = error
        for told in self._shards.said_by_all(failure):
            if told is not None:
                raise told
        return done[0]
