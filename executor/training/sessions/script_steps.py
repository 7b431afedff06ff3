"""The steps of a script that loops over `coadapt.steps`, each of which may have to be done again as a whole."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ..data.batches import Source
from ..data.side_loaders import SideLoaders
from ..gradients.gradients import Gradients
from .batch_parts import BatchParts
from .loop_events import LoopEvents
from .loop_state import LoopState
from .sample_counts import SampleCounts
from .script_progress import ScriptProgress
from .step_scale import StepScale


@dataclass(eq=False)
class ScriptSteps:
    """Begins and ends the script's own steps, and goes back to the beginning of one."""

    loop: LoopState
    samples: SampleCounts
    scale: StepScale
    progress: ScriptProgress
    gradients: Gradients
    sides: SideLoaders
    source: Source
    parts: BatchParts
    events: LoopEvents

    def begin(self) -> None:
        """Begin a step, perhaps one that will be done again."""
        step = self.loop.step
        if not step.ahead:
            step.begun, step.begun_with = asdict(self.loop.position), self.samples.now()
            self.sides.begin_step()
            self.events.script_step_begins()

    def end(self) -> None:
        """End a step of the script, or go back to its beginning where it was undone."""
        self.parts.raise_failure()
        self.parts.close()
        position, step = self.loop.position, self.loop.step
        if step.void:
            self._again()
            return
        if not step.ahead:
            for _ in range(step.done):
                self.source.done_with()
            step.done = 0
        # The step may be one of several that make a whole step, and only some of these may be done.
        by_progress, full = self.progress.by_progress, self.scale.full_batch_size
        position.script_steps += self.scale.progress_per_sample_of(full) if by_progress else 1.0
        position.begun = False

    def _again(self) -> None:
        """Go back to where the step began that was undone."""
        step = self.loop.step
        step.void, step.done = False, 0
        self.loop.position.load(step.begun)
        self.samples.go_back(step.begun_with)
        self.sides.again()
        self.gradients.forget_step()
        self.gradients.load_accumulated({})
        step.unstepped, step.since_step = False, 0
        self.events.script_step_again()
