"""The checkpoints of a managed run: when they are due, and what a failure to write one means."""

from __future__ import annotations

import os
import sys
import time

from ....core.training_config import TrainingConfig
from ...protocol import messages
from ..sharding.shards import Shards
from ..sharding.states import gathered
from ..state.checkpoint import CheckpointError, CheckpointStore
from ..state.training_state import TrainingState
from .channel import Channel


class SessionCheckpoints:
    """Saves the state of the training; `store` is None where the job has no checkpoint folder."""

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

        All processes of a sharded replica call this, and the first of them writes.
        """
        if self.store is None:
            return None
        steps, state = self._state.position.steps, self._state.capture()
        if self._shards is not None:
            state = gathered(state, keeps=self._shards.index == 0)
            if self._shards.index:
                self._saved_s = time.monotonic()
                return None
        path = self.store.save(state, steps)
        self._saved_s = time.monotonic()
        self._channel.send(messages.Saved(path, steps))
        return path

    def try_to_save(self) -> None:
        """Write a checkpoint while training goes on; where storage fails for a moment, the last good one stays."""
        try:
            self.save()
        except CheckpointError as error:
            print(f"coadapt: {error}; training goes on", file=sys.stderr, flush=True)
            self._saved_s = time.monotonic()
