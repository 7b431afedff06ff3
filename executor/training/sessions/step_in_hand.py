"""What is known of the optimizer step that is being put together, from its first batch to the step itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ..data.batches import Unit
from ..data.units import Part
from .sample_counts import CountSnapshot

NOTHING_COUNTED = CountSnapshot(0, 0, 0)


@dataclass
class StepInHand:
    """One step of a group, into which several batches, and several steps of the script, may go.

    ahead: batches that were handed out and whose gradients are not combined yet.
    parts: pieces that its gradient is put together from, over all replicas.
    running: the batch and the part that the script has and is not done with.
    batch: the data that the script was given last.
    void: nothing that is done now counts.
    started_s: when it began, by `time.perf_counter`, or by the pace's clock.
    before, since_step_before, credit: sample counts, `since_step` and the schedules' credit when it began.

    Of the script's own steps:
    asked: the script made a step in this batch.
    asked_in_part: its steps in this part, as (backwards before it, id of the optimizer). A gradient scaler asks
    for the same one twice.
    stepped: the step really happened.
    asked_of: optimizers whose steps were asked for and are not made yet.
    unstepped: gradients were made since its last step. unstepped_before: the same before this batch.
    since_step: batches since its last step. progress_ahead: samples since then, weighted by progress.
    schedule_calls: by scheduler, steps that were asked for since the last one that happened.

    Of a loop in steps:
    done: batches of the running step of the script that are done with.
    begun, begun_with: the position and the sample counts when that step began.
    """

    ahead: list[Unit] = field(default_factory=list)
    parts: int = 0
    running: tuple[Unit, Part] | None = None
    batch: Any = None
    void: bool = False
    started_s: float = 0.0
    before: CountSnapshot = NOTHING_COUNTED
    since_step_before: int = 0
    credit: list[float] = field(default_factory=list)
    asked: bool = False
    asked_in_part: set[tuple[int, int]] = field(default_factory=set)
    stepped: bool = False
    asked_of: dict[torch.optim.Optimizer, None] = field(default_factory=dict)
    unstepped: bool = False
    unstepped_before: bool = False
    since_step: int = 0
    progress_ahead: float = 0.0
    schedule_calls: list[int] = field(default_factory=list)
    done: int = 0
    begun: dict[str, Any] = field(default_factory=dict)
    begun_with: CountSnapshot = NOTHING_COUNTED

    @property
    def samples(self) -> int:
        """Samples of all replicas in the batches that are ahead."""
        return sum(unit.samples for unit in self.ahead)

    def forget_schedule_calls(self) -> None:
        """Drop what schedulers were asked for in batches that count for nothing."""
        self.schedule_calls = [0] * len(self.schedule_calls)
