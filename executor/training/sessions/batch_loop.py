"""The script's loops over the training data: which batch comes next, and what follows the last one."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..checks.batch_watch import BatchWatch
from ..collective.group import GroupBroken
from ..data.batches import Place, Reader, Source
from ..data.loader import OrderDiffers
from ..data.loop_habits import AheadWatch, takes_by_next
from ..data.side_loaders import SideLoaders
from ..gradients.gradients import Gradients
from ..state.prepared import Prepared
from ..variables.own_code import reads_batches
from .batch_parts import BatchParts
from .loop_events import LoopEvents
from .loop_state import LoopState
from .peers import Peers
from .sample_counts import SampleCounts
from .step_course import StepCourse
from .step_scale import StepScale

LEFT_BETWEEN = (
    "the loop was left in the midst of a batch that takes several passes; the training goes on from its last "
    "checkpoint, where batches take one pass on each replica"
)
LEFT_UNDONE = (
    "the loop was left after a batch that has to be done again; the training goes on from its last checkpoint. "
    "Where no replica was lost, say what the loss is over the samples of a batch: "
    'coadapt.prepare(…, loss="mean"), "sum" or "batch"'
)


@dataclass(eq=False)
class BatchLoop:
    """Goes through the data from where the training is; answers the prepared loader, and what counts batches.

    It is the `Loop` of `elastic_loader` and the `Numbers` of `counted_loops`.
    """

    prepared: Prepared
    source: Source
    loop: LoopState
    samples: SampleCounts
    scale: StepScale
    peers: Peers
    gradients: Gradients
    watch: BatchWatch
    sides: SideLoaders
    course: StepCourse
    parts: BatchParts
    events: LoopEvents

    def __post_init__(self) -> None:
        self._position, self._step = self.loop.position, self.loop.step

    # --- what is asked of a loop ----------------------------------------------------------------------------

    def batch_count(self) -> int:
        """Return the script's batches of a loop; raises TypeError where that is not known."""
        loader, script_batch, size = self.prepared.loader, self.scale.script_batch, self.source.size
        if script_batch == self.prepared.loader.batch_size or size is None:
            return len(loader)
        return size // script_batch if loader.drop_last else -(-size // script_batch)

    @property
    def samples_shared(self) -> int | None:
        return self.samples.shared

    def note_counting(self, how: str) -> None:
        self.loop.note_counting(how)

    @property
    def partial(self) -> bool:
        return self.loop.partial

    @property
    def trained(self) -> bool:
        return self.gradients.backwards > 0

    @property
    def batch_number(self) -> int:
        return max(self.loop.number - 1, 0)

    @property
    def pass_number(self) -> int:
        return self.watch.parts

    def next_number(self) -> int:
        loop = self.loop
        number = loop.number
        if self._step.running is not None:
            partial, redos = loop.partial, loop.redos
            self.parts.close()
            number = loop.number - int(partial and redos == loop.redos)
        return number

    # --- batches --------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[Any]:
        """Yield the batches of one loop over the training data, from where the training is."""
        self.parts.raise_failure()
        loop, position = self.loop, self._position
        if not loop.in_loop:
            for batch in self.prepared.loader:  # a look at the data before training
                yield batch
                if loop.in_loop:
                    raise RuntimeError(AheadWatch.SENTENCE)
            return
        if loop.loops_seen < position.loop:  # the loop was done before this process joined or was restarted
            loop.loops_seen += 1
            return
        here = position.epoch, position.loop
        try:
            while (yield from self.events.read_on()):
                self._step.ahead = []
        except GeneratorExit:
            if loop.in_loop and not loop.by_steps and (position.epoch, position.loop) == here:
                try:
                    self._end()
                except BaseException as error:
                    self.parts.keep_failure(error)
            raise

    @reads_batches
    def read_on(self) -> Generator[Any, None, bool]:
        """Yield batches to the end of the loop; returns whether what follows has to be read anew."""
        loop, position, step = self.loop, self._position, self._step
        here = position.epoch, position.loop
        reader: Reader | None = None
        self._note_taking()
        entered = False
        while True:
            try:
                # The end of the data is no control point: whoever went on from there would run what follows the
                # loop without having been in it.
                if reader is None or reader.has_next:
                    if not step.ahead and self.events.control_point():
                        reader = None
                    if (position.epoch, position.loop) != here:
                        loop.loops_seen += 1
                        return False  # the others were already further
                    if not step.ahead:
                        self.watch.before_batch()
                    if reader is None or (not step.ahead and self.scale.split != loop.read_by):
                        reader = self._begin_reading()
                if entered or not loop.is_behind:
                    self.events.arrive()
                unit = reader.take()
                if unit is None:
                    self._end()
                    return False
                last = not self._has_enough_ahead(reader)
                if not entered:
                    unit, entered = (yield from self.events.enter_loop(unit)), True
            except GroupBroken:  # while one replica reads data for all
                if step.ahead:
                    self.course.undo()
                    yield from self.parts.void()
                return True
            if not (yield from self.parts.hand_out(unit, last)):
                return True

    def _note_taking(self) -> None:
        """See how the loop takes its batches, when it asks for the first one."""
        loop = self.loop
        if takes_by_next() and not loop.by_next:
            loop.by_next = True
            loop.note_counting("next")
            loop.ahead = AheadWatch()
        self.sides.begin_loop(loop.by_next)

    def _has_enough_ahead(self, reader: Reader) -> bool:
        """Return whether gradients may be kept back after this batch, since another one follows to bring them."""
        return len(self._step.ahead) + 1 < self.scale.units_per_step and reader.has_next

    def _begin_reading(self) -> Reader:
        """Read on from where the training is, or from the beginning of the epoch where the order has changed."""
        position, peers = self._position, self.peers
        place = Place(position.epoch, position.loop, position.batch, position.offset)
        self.loop.read_by = split = self.scale.split
        try:
            return self.source.begin(place, split, peers.data_rank, peers.group)
        except OrderDiffers as differs:
            peers.tell(
                f"{differs} gives another order of samples after a restart than before; this epoch begins anew"
            )
            position.batch = position.offset = 0
            self.source.load_state_dict({})
            return self.source.begin(
                replace(place, batch=0, offset=0), self.scale.split, peers.data_rank, peers.group
            )

    # --- ends -----------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """End a loop over the data. Raises RuntimeError where it was left in the midst of a batch."""
        loop, position, step = self.loop, self._position, self._step
        self.events.part_over()
        if self._is_left_between:
            loop.one_pass = True
            self.events.found_out()
            raise RuntimeError(LEFT_BETWEEN)
        if step.asked:
            self.parts.close()
            if self.gradients.undone:
                raise RuntimeError(LEFT_UNDONE)
        if step.running is not None:  # it was given a batch and has left before it trained on it
            self.gradients.forget_step()
        elif step.ahead and step.asked_of and not self.gradients.undone:
            self.course.make_up()
        step.running, loop.in_iteration, loop.partial = None, False, False
        if self.peers.world_size > 1 or self.samples.local != position.pass_samples:
            self.samples.shared = self.samples.local
        self.course.done_with_ahead()
        step.since_step = loop.given = 0
        self.gradients.end_loop()
        position.loop += 1
        position.batch = position.offset = 0
        loop.loops_seen += 1
        self.events.after_loop()

    @property
    def _is_left_between(self) -> bool:
        """Whether the script has a batch that it has trained on in some passes only."""
        running = self._step.running
        if running is None or self._step.void or len(running[0].parts) == 1 or not self.watch.has_trained():
            return False
        return self.loop.partial or not self.trained

    def begin_pass(self) -> None:
        """Begin a pass over the data."""
        self.samples.begin_pass()
        self._position.pass_samples, self._position.pass_progress = 0, 0.0

    def end_pass(self, epoch: int, by_progress: bool) -> None:
        """Move the position past the end of the pass number `epoch`."""
        self.parts.raise_failure()
        self.parts.close()
        position = self._position
        made = position.pass_progress / position.pass_samples if position.pass_samples else 1.0
        position.last_pass = made if by_progress else 1.0
        position.epochs_done += made
        position.epoch, position.loop, position.batch, position.offset = epoch + 1, 0, 0, 0
        position.begun, self.loop.given = False, 0
        position.last_samples, position.pass_samples, position.pass_progress = position.pass_samples, 0, 0.0
