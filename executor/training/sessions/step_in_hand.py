"""What is known of the optimizer step that is being put together, from its first batch to the step itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ..data.batches import Unit
from ..data.units import Part


@dataclass
class StepInHand:
    """One step of a group; several batches, and several steps of the script, may go into it.

    ahead: batches that are given out and not combined yet. parts: of how many its gradient is put together, over
    all replicas. running: what the script has been given and is not done with. batch: the last one it was given.
    void: nothing that is done now counts. started_s: by `time.perf_counter`. before, credit: this replica's
    samples and batches since a step (`GroupSession._samples_counted`), and what schedules have to their credit,
    when it began.

    Of the script's own steps: asked: it made one in this batch; asked_in_part: those in this part of it, by
    backwards before each and optimizer, as a gradient scaler asks for one twice.
    stepped: and it happened. asked_of: the optimizers whose steps were asked for and not made yet. unstepped:
    gradients were made since its last; unstepped_before: the same before this batch. since_step: batches since
    then. progress_ahead: samples, weighted by progress, since then.

    Of a loop in steps: done: batches of the running step that are done with. begun, begun_with: the position and
    this replica's samples when it began.
    """

    ahead: list[Unit] = field(default_factory=list)
    parts: int = 0
    running: tuple[Unit, Part] | None = None
    batch: Any = None
    void: bool = False
    started_s: float = 0.0
    before: tuple[int, int, int, int] = (0, 0, 0, 0)
    credit: list[float] = field(default_factory=list)
    asked: bool = False
    asked_in_part: set[tuple[int, int]] = field(default_factory=set)
    stepped: bool = False
    asked_of: dict[torch.optim.Optimizer, None] = field(default_factory=dict)
    unstepped: bool = False
    unstepped_before: bool = False
    since_step: int = 0
    progress_ahead: float = 0.0
    done: int = 0
    begun: dict[str, Any] = field(default_factory=dict)
    begun_with: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def samples(self) -> int:
        """Of all replicas, in the batches that are ahead."""
        return sum(unit.samples for unit in self.ahead)
