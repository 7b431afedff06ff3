"""Knows how far the training is, in epochs and steps as the script counts them."""

from __future__ import annotations

from ....core.reports import MeasuredAt
from ....core.training_config import Count
from ..data.batches import Source
from ..variables.undue import Resumed, Undue
from .loop_state import LoopState

# A pass that lacks no more progress than this counts as a whole one.
ROUNDING = 1e-6


class ScriptProgress:
    """Counts by progress where the batch size is adapted (`Count.PROGRESS`), else by passes and steps."""

    def __init__(self, count: Count, loop: LoopState, source: Source) -> None:
        self.by_progress = count is Count.PROGRESS
        self._loop, self._position, self._source = loop, loop.position, source

    @property
    def completed(self) -> bool:
        """Whether what was asked for is done or the target is reached."""
        position, loop = self._position, self._loop
        if position.target_reached or position.ended:
            return True
        if loop.step_count is not None:
            return position.script_steps >= loop.step_count - ROUNDING
        return loop.epoch_count is not None and self.epochs_done >= loop.epoch_count - ROUNDING

    @property
    def epochs_done(self) -> float:
        """Epochs that are over."""
        return self._position.epochs_done if self.by_progress else float(self._position.epoch)

    @property
    def pass_progress(self) -> float:
        """Progress of the last pass over the data, in epochs at the initial batch size."""
        return self._position.last_pass if self.by_progress else 1.0

    @property
    def progress_epochs(self) -> float:
        """Epochs of progress so far; the running pass counts by its samples."""
        position, size = self._position, self._source.size
        if not size or position.loop or self._loop.by_steps:
            return position.epochs_done
        return position.epochs_done + min(position.pass_progress / size, 1.0)

    @property
    def passes_done(self) -> float:
        """Passes over the data so far; the running one counts by its samples."""
        position, size = self._position, self._source.size
        if not size or position.loop:
            return float(position.epoch)
        return position.epoch + min(position.pass_samples / size, 1.0)

    @property
    def here(self) -> MeasuredAt:
        """Where the training is: the epoch that is under way, or the last one after it, and the samples so far."""
        epoch, count = int(self.epochs_done + ROUNDING) + 1, self._loop.epoch_count
        return MeasuredAt(epoch if count is None else min(epoch, round(count)), self._position.samples)

    @property
    def where(self) -> str:
        """How far the training is, in words."""
        position, loop = self._position, self._loop
        if loop.step_count is not None:
            return f"step {int(position.script_steps)} of {round(loop.step_count)}"
        return f"epoch {int(self.epochs_done + ROUNDING) + position.begun} of {round(loop.epoch_count or 0)}"

    def show(self, progress: float, count: int) -> int:
        """Return the number of an epoch or step for the script.

        A number that was given before equals nothing. In a process that comes in or starts again in the midst of
        an epoch, its number equals nothing up to the first batch. What a script does at that number was done.
        """
        position, loop = self._position, self._loop
        resumed, position.begun = position.begun, True
        loop.batches_here = 0
        if not resumed:
            number = min(int(progress + ROUNDING), count - 1)
            position.again, position.shown = number == position.shown, number
        if position.again:
            return Undue(position.shown)
        return Resumed(position.shown, self._has_batch) if resumed else position.shown

    def _has_batch(self) -> bool:
        return self._loop.batches_here > 0
