"""Decides whether the loop may be given larger batches than the script's own."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.training_config import Adaptivity, TrainingConfig
from ..data.batches import Source
from ..data.loop_habits import LoopHabits
from .loop_state import LoopState


class BatchFusing:
    """Looks at how the loop treats its batches, and decides after a pass at which all replicas have looked."""

    def __init__(
        self, config: TrainingConfig, script_batch: int, loop: LoopState, source: Source, has_scheduler: bool
    ) -> None:
        self._config, self._script_batch, self._loop, self._source = config, script_batch, loop, source
        self._has_scheduler = has_scheduler
        self.habits = LoopHabits()
        self.all_looked = False  # whether every rank has looked at a loop's habits

    @property
    def is_possible(self) -> bool:
        """Whether larger batches are an option at all."""
        config = self._config
        adapts = config.adaptivity is Adaptivity.ADAPTIVE and (config.max_batch_size or 0) > self._script_batch
        return adapts and self._source.fusable and not self._loop.by_steps and config.fuse_batches != "never"

    def look(self, rates: Sequence[float]) -> None:
        """Look at the loop before a batch; `rates` are the learning rates now."""
        if self.is_possible:
            self.habits.look(self._loop.position.batch, rates, self._has_scheduler)

    def choose(self) -> None:
        """Choose larger batches, after a pass, for a loop that was not seen to count its own."""
        position = self._loop.position
        if position.whole and self.is_possible and position.per_step == 1:
            always = self._config.fuse_batches == "always"
            position.whole = not (always or (self.all_looked and not position.counted))
