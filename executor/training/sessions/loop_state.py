"""Keeps where the script is in its loops, as this process sees it."""

from __future__ import annotations

from dataclasses import dataclass

from ..data.loop_habits import AheadWatch
from ..data.units import Split
from ..state.training_state import Position
from .step_in_hand import StepInHand


@dataclass
class LoopState:
    """What is known of the running loop beside the position of the training. Nothing of it travels.

    epoch_count, step_count: epochs or steps that all loops until now have asked for; None for what the script
    does not count by.
    in_loop: the script is inside of a loop over epochs or steps.
    in_iteration: the script has a part of a batch. partial: that part is not the last one of its batch.
    one_pass: the script makes several steps per batch, so a batch takes one pass on each replica.
    by_next: the loop takes its batches by calls such as `next(iterator)`, and so counts them.
    counts_itself: the script uses Python's own `islice`, whose counts cannot be corrected.
    loops_seen: loops over the data that this process has been through, or was told of, in the running pass.
    given: batches of the running loop that the script was given in this process.
    batches_here: batches since the running pass or step began in this process.
    redos: times that something had to be done again.
    read_by: how the batches that are read now are divided.
    ahead: watches a loop that takes batches by calls.
    """

    position: Position
    step: StepInHand
    epoch_count: float | None = None
    step_count: float | None = None
    in_loop: bool = False
    in_iteration: bool = False
    partial: bool = False
    one_pass: bool = False
    by_next: bool = False
    counts_itself: bool = False
    loops_seen: int = 0
    given: int = 0
    batches_here: int = 0
    redos: int = 0
    read_by: Split | None = None
    ahead: AheadWatch | None = None

    @property
    def by_steps(self) -> bool:
        """Whether the script's loop counts steps and not epochs."""
        return self.step_count is not None

    @property
    def number(self) -> int:
        """Batches of the running loop that were handed out, with the running one."""
        return self.position.batch + len(self.step.ahead)

    @property
    def batch_key(self) -> tuple[int, int, int]:
        """Epoch, loop and number of the batch that is handed out next."""
        return self.position.epoch, self.position.loop, self.number

    @property
    def in_script_step(self) -> bool:
        """Whether a step of a loop in steps is under way, all of which may be done again."""
        return self.in_loop and self.by_steps

    @property
    def is_behind(self) -> bool:
        """Whether a loop that counts what it takes has taken fewer batches than the others have."""
        return self.by_next and not self.by_steps and self.given < self.position.batch

    def note_counting(self, how: str) -> None:
        """Remember that the script has counted its batches, and how."""
        self.position.counted = True
