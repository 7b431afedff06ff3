"""The checkpoints of a managed run: when they are due, and what a failure to write one means."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from ....core.checkpoint_name import SHARD_FILES
from ....core.training_config import TrainingConfig
from ...protocol import messages
from ..collective.group import Group
from ..sharding.local import locals_of
from ..sharding.shards import Shards
from ..state.checkpoint import CheckpointStore
from ..state.checkpoint_errors import CheckpointError
from ..state.sharded_saving import ShardedSaving
from ..state.training_state import TrainingState
from .channel import Channel


class SessionCheckpoints:
    """Saves the state of the training; `store` is None where the job has no checkpoint folder.

    shards: the processes of this replica, all of which save and read together.
    """

    def __init__(
        self, config: TrainingConfig, state: TrainingState, channel: Channel, shards: Shards | None = None
    ) -> None:
        url = os.environ.get(messages.CHECKPOINT_URL) or config.checkpoint.url
        self.store = CheckpointStore(url, config.checkpoint.keep) if url else None
        self.at_pass_end = config.checkpoint.at_epoch_end
        self._minutes = config.checkpoint.every_minutes
        self._state, self._channel, self._shards = state, channel, shards
        self._saved_s = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time for the next one."""
        due = self._minutes is not None and time.monotonic() - self._saved_s >= self._minutes * 60
        return due and self.store is not None

    def save(self) -> str | None:
        """Write a checkpoint and tell the executor; returns its path. Raises what the store raises.

        All processes of a sharded replica call this. The first of them tells, and the others return None.
        """
        if self.store is None:
            return None
        began_s = time.monotonic()
        steps, state, path = self._state.position.steps, self._state.capture(), None
        if self._shards is None:
            path = self.store.save(state, steps)
        else:
            parameters = self._state.prepared.parameters()
            path = ShardedSaving(self.store, self._shards).save(state, steps, parameters)
        self._saved_s = time.monotonic()
        if path is not None:
            self._channel.send(messages.Saved(path, steps, self._saved_s - began_s))
        return path

    def try_to_save(self) -> None:
        """Write a checkpoint while training goes on; where storage fails for a moment, the last good one stays."""
        try:
            self.save()
        except CheckpointError as error:
            if self._shards is None or self._shards.index == 0:
                print(f"coadapt: {error}; training goes on", file=sys.stderr, flush=True)
            self._saved_s = time.monotonic()

    def filled(self, state: dict[str, Any], group: Group) -> dict[str, Any]:
        """Return a state that was loaded, with what lies in shards beside it in its place.

        The processes of replica 0 read, each what it has part in. Others take their shards from them.
        Of an unsharded job, rank 0 alone calls this. Raises CheckpointError, and GroupBroken.
        """
        where = state.pop(SHARD_FILES, None)
        if where is None:
            return state
        state, rooms = self._state.with_room(state)
        if group.rank < group.processes:
            assert self.store is not None
            self.store.read_shards(where, rooms, self._shards.group if self._shards is not None else None)
        if group.shards is not None:
            group.column.broadcast_tensors(locals_of(list(rooms.values())), 0)
        return state
