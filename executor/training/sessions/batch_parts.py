"""Each batch as the script is given it: in one part or several, one after the other."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..checks.batch_watch import GOES_BACK, BatchWatch
from ..collective.group import GroupBroken
from ..data.batches import Unit, another
from ..data.side_loaders import SideLoaders
from ..gradients.gradients import Gradients
from ..gradients.part_plan import PartPlan
from .loop_events import LoopEvents
from .loop_state import LoopState
from .peers import Peers
from .step_course import StepCourse
from .step_scale import StepScale


@dataclass(eq=False)
class BatchParts:
    """Hands out the parts of a batch, and looks at what the script did with each."""

    loop: LoopState
    scale: StepScale
    peers: Peers
    gradients: Gradients
    watch: BatchWatch
    sides: SideLoaders
    course: StepCourse
    events: LoopEvents

    def __post_init__(self) -> None:
        self._step = self.loop.step
        self._failure: BaseException | None = None

    def hand_out(self, unit: Unit, last: bool) -> Generator[Any, None, bool]:
        """Yield the passes of one batch to the script; returns False when it has to be done again.

        `last`: no further batch goes into the step.
        """
        loop, step, split, unit = self.loop, self._step, self.scale.split, self._by_turns(unit)
        if not step.ahead:
            self.course.begin(split, unit)
        self.sides.open(begins_step=not step.ahead and not loop.by_steps)
        self.events.open_unit(unit)
        self.watch.begin(divided=not last or len(unit.parts) > 1, first=loop.given == 0)
        step.ahead.append(unit)
        loop.batches_here += 1
        loop.given += 1
        if loop.ahead is not None:
            loop.ahead.taken()
        step.asked = step.stepped = False
        redos = loop.redos
        for number, part in enumerate(unit.parts):
            try:
                batch = self.course.fetched(unit)
            except GroupBroken:
                self.course.undo()
                yield from self.void()
                return False
            step.batch = another(batch)
            loop.partial = number < len(unit.parts) - 1
            self.gradients.begin_part(
                PartPlan(
                    part.samples,
                    unit.samples,
                    part.copies,
                    split.merged,
                    step.parts,
                    self.scale.full_batch_size,
                    visible=last and not loop.partial,
                    last=not loop.partial,
                    per_step=self.scale.added_up,
                )
            )
            if (group := self.peers.group) is not None:
                group.place = "backward", 0, loop.number - 1, loop.position.epoch
            step.asked_in_part = set()
            self.events.before_part(part)
            self.watch.begin_part(batch, part.samples)
            self.sides.begin_part()
            loop.in_iteration, step.running = True, (unit, part)
            yield batch
            self.close()
            if loop.redos != redos:  # this may have been seen before, at the end of a step of the script
                yield from self.void()
                return False
        return True

    def close(self) -> None:
        """End the part that the script was given last; do nothing where it has ended before.

        Raises RuntimeError for a batch that has to be done again and cannot be.
        """
        self.events.part_over()
        loop, step = self.loop, self._step
        running, step.running = step.running, None
        if running is None:
            return
        unit, part = running
        partial, loop.in_iteration = loop.partial, False
        self.raise_failure()
        if not step.void:
            self.watch.end_part(
                part,
                unit.samples,
                last=not partial,
                alone=len(step.ahead) == 1,
                steps=len(step.asked_in_part),
                loop=loop.position.loop,
            )
        if self.gradients.undone:
            self.course.undo()
            if not self.watch.restore() and step.stepped:
                self.events.found_out()
                raise RuntimeError(
                    f"a step of the script was made before a batch had to be done again; {GOES_BACK}"
                )
            return
        self.events.after_part(part)
        loop.partial = False
        if not partial:
            self.course.end_unit(unit)

    def void(self) -> Iterator[Any]:
        """Yield the last batch again, for nothing, until a step that has to be done again is over."""
        while self._step.void:
            self.gradients.begin_part(PartPlan(1, 1, visible=False, void=True))
            yield another(self._step.batch)

    def keep_failure(self, error: BaseException) -> None:
        """Keep, for the script's next call, what was raised while a generator was closed: Python drops it."""
        self._failure = error

    def raise_failure(self) -> None:
        """Raise what was kept, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _by_turns(self, unit: Unit) -> Unit:
        """Let a batch that all replicas compute whole count for one of them, which takes turns.

        Each replica has sums over samples of its own.
        """
        world_size = self.peers.world_size
        if world_size == 1 or unit.parts[0].count > 1:
            return unit
        counts = self.loop.number % world_size == self.peers.rank
        return replace(unit, parts=tuple(replace(part, counts=counts) for part in unit.parts))
