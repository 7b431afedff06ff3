"""The course of an optimizer step: it begins, takes in batches, ends or is undone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from ....estimators.pace import Pace
from ..data.batches import Source, Unit
from ..data.units import Split
from ..gradients.gradients import Gradients
from ..gradients.part_plan import PartPlan
from ..state.prepared import Prepared
from .loop_events import LoopEvents
from .loop_state import LoopState
from .peers import Peers
from .sample_counts import SampleCounts
from .step_scale import StepScale

CANNOT_DO_AGAIN = (
    "a batch has to be done again, which a loop that takes its batches by next() cannot do; the training goes on "
    "from its last checkpoint. Where no replica was lost, say what the loss is over the samples of a batch: "
    'coadapt.prepare(…, loss="mean"), "sum" or "batch"'
)


@dataclass(eq=False)
class StepCourse:
    """Keeps the books of the step in hand, and moves the position on when it ends.

    `pace` is set on emulated nodes only.
    """

    prepared: Prepared
    loop: LoopState
    samples: SampleCounts
    scale: StepScale
    peers: Peers
    gradients: Gradients
    source: Source
    events: LoopEvents
    pace: Pace | None = None

    def __post_init__(self) -> None:
        self._position, self._step = self.loop.position, self.loop.step

    def begin(self, split: Split, unit: Unit) -> None:
        """Begin a step with the batch `unit`."""
        step, meter = self._step, self.gradients.meter
        measured = self.events.measures_noise()
        units = self.scale.units_per_step
        step.parts = units * split.passes_for(unit.samples) * self.peers.replicas
        if measured and split.part_count(split.unit) == split.replicas * split.passes:
            # The gradient of a whole step of the script is measured; this may be one batch of several.
            share = 1.0 if self.gradients.weights.sums else self.scale.added_up / self._position.per_step
            meter.begin(
                split.unit * units if unit.samples == split.unit else unit.samples,
                step.parts,
                self.prepared.loss_scale * share,
            )
        else:
            meter.skip()
        self.gradients.timer.start_step()
        step.started_s = time.perf_counter() if self.pace is None else self.pace.clock()
        step.before, step.since_step_before = self.samples.now(), step.since_step
        step.unstepped_before = step.unstepped
        step.credit = list(self._position.schedule_credit)

    def fetched(self, unit: Unit) -> Any:
        """Return the next part of a batch. A GPU works when its data is there, however long that took."""
        if not self.source.workers:  # it is read here, which is a part of the step
            return unit.fetch()
        clock = time.perf_counter if self.pace is None else self.pace.clock
        asked_s = clock()
        self.gradients.timer.input_asked()
        batch = unit.fetch()
        self.gradients.timer.input_there()
        self._step.started_s += clock() - asked_s
        return batch

    def undo(self) -> None:
        """Have what is under way done again, from the first batch of its step.

        A loop in steps does its whole step again. Until that is over, whatever it does is void.
        Raises RuntimeError for a loop that cannot do a batch again.
        """
        loop, step = self.loop, self._step
        if loop.by_next and not loop.by_steps:
            raise RuntimeError(CANNOT_DO_AGAIN)
        step.ahead, step.asked_of = [], {}
        self.samples.go_back(step.before)
        step.since_step, step.unstepped = step.since_step_before, step.unstepped_before
        self._position.schedule_credit = list(step.credit)
        loop.redos += 1
        self.gradients.forget_step()
        self.gradients.undone = True
        step.void = loop.by_steps and loop.batches_here > 0
        step.forget_schedule_calls()
        self.events.step_undone()

    def end_unit(self, unit: Unit) -> None:
        """Count a batch that the script is done with; end the step where no further batch goes into it."""
        position, step = self._position, self._step
        self.samples.add(unit)
        step.since_step += 1
        if step.asked:
            if self.gradients.backwards:
                position.count_step_of(step.since_step)
            step.since_step = 0
        elif self.gradients.backwards:
            step.unstepped = True
        if self.loop.by_steps:
            step.done += 1
        if not self.gradients.hidden:
            self._end(unit)

    def _end(self, unit: Unit) -> None:
        """Move the position on, because the gradients of all batches that were ahead are combined."""
        position, step, split = self._position, self._step, self.scale.split
        done = step.samples
        full = done == self.scale.full_batch_size or (
            self.scale.units_per_step == 1 and unit.samples == split.unit
        )
        passes = sum(len(ahead.parts) for ahead in step.ahead)
        sync_time_s = self._keep_pace(passes)
        if full:
            shape = self.peers.nodes, self.peers.replicas, self.scale.local_bsz, passes - 1
            self.gradients.timer.end_step(*shape, sync_time_s=sync_time_s)
        share = self.scale.progress_per_sample
        position.batch += len(step.ahead)
        position.offset += done
        position.samples += done
        position.pass_samples += done
        position.pass_progress += done * share
        position.iterations += 1
        step.progress_ahead += done * share
        if step.stepped:
            position.steps += 1
            position.progress_samples += step.progress_ahead
        if step.asked:
            step.progress_ahead = 0.0
        self.done_with_ahead()
        step.asked_of = {}
        self.gradients.meter.update()

    def make_up(self) -> None:
        """Make the step of the batches there are, where the loop was left in the midst of a merged one."""
        self.gradients.meter.drop()
        self.gradients.begin_part(PartPlan(1, self.peers.world_size, per_step=self.scale.added_up))
        self.loop.in_iteration = True
        for optimizer in list(self._step.asked_of):
            if self.prepared.scalers:
                self.prepared.scalers[0].step(optimizer)
            else:
                optimizer.step()
            optimizer.zero_grad()
        for scaler in self.prepared.scalers:
            scaler.update()
        self._end(self._step.ahead[-1])

    def done_with_ahead(self) -> None:
        """Let no batch be ahead any more. A loop in steps keeps its data until the script's step is over."""
        if not self.loop.by_steps:
            for _ in self._step.ahead:
                self.source.done_with()
        self._step.ahead = []

    def _keep_pace(self, passes: int) -> float | None:
        """Wait, on an emulated node, until its GPU type would be done.

        Returns the part of that time which goes to all-reduce, in seconds; None on a real device.
        """
        if self.pace is None:
            return None
        shape = self.peers.nodes, self.peers.replicas, self.scale.local_bsz, passes - 1
        self.pace.wait(self._step.started_s, *shape)
        return self.pace.sync_time_s(*shape)
