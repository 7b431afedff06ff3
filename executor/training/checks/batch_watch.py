"""Watches what a script does with a batch that it is given in parts, and whether it may be given one so.

A script may change parameters itself between two steps, keep something of each batch, or go on from a hidden
state. It may leave out what is smaller than its own batches.
Where that is seen, the batch is done again, in one pass on each replica or as a whole. All later ones are given
so, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn

from ..collective.group import GroupBroken
from ..data.units import Part
from ..gradients.gradients import Gradients
from ..losses.loss_kind import Kind
from ..state.beside import FEW
from ..state.prepared import Prepared
from ..state.step_backup import StepBackup
from .batch_memory import BatchMemory, Mark
from .carried_state import CARRIED, SAY_IT, SEEN, CarriedState
from .gradient_check import GradientCheck

Rows = Sequence[tuple[str, Tensor, int]]

# In so many first batches everything is looked at, parameters by their values; later, these by their versions.
WATCHED = 32
ALIKE = 3  # parts of one size in which a script makes as many steps
SKIPS = (
    "the script leaves out batches that are smaller than its own, as parts of a batch are; every replica computes "
    "whole batches. Where it means the last batch of a pass, say drop_last=True instead"
)
BY_HAND = (
    "the script changes parameters itself between two steps, so that a batch takes one pass on each replica and "
    "its batch size stays"
)
RENORMALISED = (
    "{} brings rows to its max_norm where a batch holds them; every replica computes whole batches, so that all "
    "have the same rows"
)
PIECES = (
    "the script makes a step for each piece that it cuts of a batch, and parts of a batch have fewer of them; "
    "every replica computes whole batches"
)
MIXED = (
    "the script trains in some passes of a batch and not in others; every replica computes whole batches, so that "
    "it decides once for each"
)
UNLIKE = (
    "{} is another one of a whole batch than of its parts; every replica computes whole batches. Where that is "
    'meant, as where samples are mixed, say what the loss is over the samples: coadapt.prepare(…, loss="mean")'
)
GOES_BACK = "the training goes on from its last checkpoint"


class Kept(Protocol):
    def restore(self) -> None:
        """Put everything back to what it was."""


class Watched(Protocol):
    """Tells what the session is, and is told what is found."""

    one_pass: bool  # whether a batch is one pass on each replica

    @property
    def by_next(self) -> bool:
        """Whether the loop takes its batches by calls."""

    @property
    def world_size(self) -> int: ...

    @property
    def divides(self) -> bool:
        """Whether the script is given other batches than its own."""

    def tell(self, sentence: str) -> None:
        """Say something to the script's owner, once."""

    def found_out(self) -> None:
        """Keep what was found, for whoever starts the script again."""

    @property
    def can_do_again(self) -> bool:
        """Whether a batch that comes next can be given again."""

    def all_say(self, mine: bool) -> bool:
        """Return whether all replicas say so; every one of them calls this. Raises GroupBroken."""

    def told_by_all(self, mine: Sequence[int]) -> Sequence[Sequence[int]]:
        """Return what each replica tells, by rank; every one of them calls this. Raises GroupBroken."""

    def kept_beside(self) -> Sequence[Kept]:
        """Keep what else a script changes with each batch, as it is now."""

    def mark_rows(self) -> Rows:
        """Mark tensors of the script that may hold something of each sample, as `OwnVariables.rows` does."""


@dataclass
class _Before:
    """The running batch: what was before it, and what was seen of it so far.

    accumulated: copies of gradients.
    touched: the script has changed parameters in a pass whose gradients are kept back.
    trained: it has made a backward or a step. ways: whether it has, for each pass.
    """

    backup: StepBackup | None = None
    beside: Sequence[Kept] = ()
    accumulated: dict[int, Tensor] | None = None
    versions: Sequence[int] = ()
    memory: Mark = ()
    rows: Rows = field(default=())
    touched: bool = False
    trained: bool = False
    ways: set[bool] = field(default_factory=set)


class BatchWatch:
    """Looks at each batch that is given in parts, or to several replicas."""

    def __init__(self, prepared: Prepared, gradients: Gradients, session: Watched, loss: Kind) -> None:
        self._prepared, self._gradients, self._session = prepared, gradients, session
        self._memory = BatchMemory([*prepared.modules, *prepared.companions])
        self._carried = CarriedState(() if loss is Kind.BATCH else prepared.modules, self._carries)
        self._batch = _Before()
        self._batches = 0  # batches that were looked at
        self.parts = 0  # parts that were given
        self._keeps_all = False  # whether what is before a batch is kept for every one
        self._is_small = sum(parameter.numel() for parameter in prepared.parameters()) <= FEW
        self._renormalised = _renormalised(prepared)
        self._writes_the_same = False  # whether the script writes to parameters without changing them
        self._tries_whole = False  # whether this batch is given as a whole, since no part of it was trained on
        # whether this batch is given as a whole, since its parts may have been one piece each
        self._sees_whole = False
        # Steps that were made of the last parts, by their samples and those of their batches.
        self._steps_made: dict[tuple[int, int], deque[int]] = {}
        self._looks = False  # whether this batch's losses are looked at for signs
        self._has_signs = False  # whether one had signs, so that the next batch is compared
        self._compares_whole = False  # whether this batch is given as a whole, and its parts next
        self.check = GradientCheck(prepared)
        self._left_out: set[tuple[int, int]] = set()  # loops and sizes of batches that are not trained on

    @property
    def found(self) -> dict[str, Any]:
        """What is not tried again by whoever comes later: loops and sizes of batches that are not trained on.

        It also holds how many steps whole batches have had, by their size.
        """
        steps = {batch: list(made) for (part, batch), made in self._steps_made.items() if part == batch}
        return {"left_out": [list(place) for place in sorted(self._left_out)], "steps": steps}

    def take_over(self, found: Mapping[str, Any]) -> None:
        """Take over what others have found."""
        self._left_out |= {(loop, samples) for loop, samples in found["left_out"]}
        for batch, made in found["steps"].items():
            self._steps_made[batch, batch] = deque(made, maxlen=ALIKE)

    def regrouped(self) -> None:
        """Begin anew in a group: its members may know nothing of a batch that was to be seen as a whole."""
        self._tries_whole = self._sees_whole = False
        self._looks = self._has_signs = self._compares_whole = False
        self.check.regrouped()

    def begin(self, divided: bool, first: bool) -> None:
        """Begin a batch, the `first` of its loop or not. `divided`: gradients of some passes are kept back."""
        self._batch = batch = _Before()
        self._gradients.after_backward = self._gradients.on_backward = None
        if self.check.running:
            self.check.end(compared=False)  # whether the batch is done again for another reason
        if self._looks:
            self._begin_look()
        elif self._compares_whole or self.check.has_whole:
            self._begin_comparison()
        replicas, steps = self._session.world_size > 1, len(self._prepared.optimizers) > 1
        if not (divided or replicas):
            return
        if self._renormalised:
            self._gradients.weights.only_whole(RENORMALISED.format(self._renormalised))
            self._renormalised = ""
        early, new = self._batches < WATCHED, self._gradients.weights.new
        if not (self._gradients.weights.whole or self._gradients.weights.trial):
            batch.memory = self._memory.mark()
            batch.rows = self._session.mark_rows() if early else ()
        if batch.beside:
            batch.versions = self._versions() if divided else ()
            self._batches += 1
            return
        if self._session.one_pass:
            batch.backup = StepBackup(self._prepared) if replicas else None
            return
        if divided:
            batch.versions = self._versions()
            full = steps or new or bool(batch.memory) or self._keeps_all
            batch.backup = StepBackup(self._prepared, full) if early else None
        elif (early and batch.memory) or (steps and first) or new or (batch.rows and not self._batches):
            batch.backup = StepBackup(self._prepared)
        if self._keeps_all and batch.backup is None:
            batch.backup = StepBackup(self._prepared)
        self._batches += 1

    def keep_all(self) -> None:
        """Keep what is before each batch: the script waits for others inside of one, and may lose one there.

        For a large model that costs too much; it goes on from the last checkpoint instead.
        """
        self._keeps_all = self._is_small

    def begin_part(self, batch: Any, samples: int) -> None:
        self.parts += 1
        if self.check.running:
            self.check.note_batch(batch, samples)
        if self.parts < WATCHED:
            self._carried.begin_part()
        else:
            self._carried.stop()

    def before_backward(self) -> None:
        """Look for changes of parameters before another backward of the same part."""
        if self._gradients.backwards:
            self._look_for_changes()

    def end_part(self, part: Part, samples: int, *, last: bool, alone: bool, steps: int, loop: int) -> None:
        """End a part of a batch of `samples`, the `last` of it or not.

        `alone`: no other batch goes into the step. `steps` that the script made.
        Afterwards the gradients are `undone` where the batch has to be done again.
        """
        asked = steps > 0
        self._look_for_changes()
        if self._batch.touched:
            self._in_one_pass()
        self._look_at_memory()
        self._look_for_steps_of_pieces(part.samples, samples, steps)
        trains = asked or self._gradients.backwards > 0
        self._batch.trained |= trains
        self._batch.ways.add(trains)
        if self.check.running:
            self.check.note_end()
            if last:
                self._compare(alone)
        self._look_for_pieces(asked)
        if last and len(self._batch.ways) > 1 and not self._gradients.undone:
            self._gradients.weights.only_whole(MIXED)
            self._do_again(MIXED)
        elif last:
            self._look_for_skips((loop, samples), alone and part.samples < samples)

    def has_trained(self) -> bool:
        """Return whether the script has trained on the running batch."""
        return self._batch.trained or self._gradients.backwards > 0

    def restore(self) -> bool:
        """Put the model back to where it was before the batch. Returns False where nothing was kept."""
        self._carried.forget()
        if self._batch.backup is not None:
            self._batch.backup.restore()
        for kept in self._batch.beside:
            kept.restore()
        return self._batch.backup is not None

    # --- gradients ------------------------------------------------------------------------------------------

    def step_asked(self) -> None:
        """Note that the script makes a step of its own, not in a pass before a batch's last."""
        if self.check.running and self.check.compares and not self._gradients.hidden:
            self.check.note_step()

    def before_batch(self) -> None:
        """Decide before a batch is read whether its loss is looked at, and whether the whole of it comes first."""
        weights, session = self._gradients.weights, self._session
        if weights.trial or weights.given is not Kind.UNKNOWN or not (session.divides and session.can_do_again):
            return
        if self._has_signs:
            self._has_signs = False
            self._compares_whole = weights.trial = True
        else:
            self._looks = not self.check.has_whole and self.check.is_due()

    @property
    def compares_whole(self) -> bool:
        """Whether the batch that comes next is given again in parts."""
        return self._compares_whole

    def _begin_look(self) -> None:
        """Look at a batch for signs. Of a large model only the very first one is kept, since that costs memory."""
        if self._is_small or self._gradients.weights.new:
            self._keep()
        self.check.begin(self._batch.backup, compares=False)
        self._gradients.on_backward = self.check.note_losses

    def _begin_comparison(self) -> None:
        self._keep()
        self.check.begin(self._batch.backup)
        self._gradients.on_backward = self.check.note_losses
        self._gradients.after_backward = self.check.note_gradients

    def _keep(self) -> None:
        self._batch.backup, self._batch.beside = StepBackup(self._prepared), self._session.kept_beside()
        self._batch.accumulated = self._gradients.copy_accumulated()

    def _compare(self, alone: bool) -> None:
        """Compare, when a batch is over as a whole or in parts, whether both bring the same."""
        check, gradients = self.check, self._gradients
        is_fine = alone and self._batch.trained and not (gradients.undone or gradients.hidden)
        try:
            if self._looks:
                self._looks = False
                self._look_for_signs(is_fine)
                return
            if self._compares_whole:
                self._compares_whole = gradients.weights.trial = False
                if self._session.all_say(is_fine and check.is_comparable()):
                    check.keep()
                else:
                    check.end(compared=False)
                check.draw_again()
                self._undo()
                return
            if not self._session.all_say(is_fine and check.is_comparable()):
                check.end(compared=False)
                return
            unlike = check.differs()
            if not self._session.all_say(not unlike):
                check.draw_again()
                gradients.weights.only_whole(UNLIKE.format(unlike or "a gradient"))
                self._undo()
            else:
                gradients.weights.take_doubt()
            check.end(compared=True)
        except GroupBroken:
            self._undo()

    def _look_for_signs(self, is_fine: bool) -> None:
        """Have a batch computed as a whole where some replica's loss has signs, or where signs differ."""
        suspect, constants = self.check.signs
        mine = [int(suspect), constants, int(is_fine), int(bool(self._batch.beside))]
        suspects, of_parts, fine, kept = zip(*self._session.told_by_all(mine), strict=True)
        if not all(fine):
            self.check.end(compared=False)
        elif len(set(of_parts)) == 1 and not any(suspects):
            self.check.end(compared=True)
        else:
            self.check.running = False
            self._has_signs = True  # the next batch is given as a whole first, or this one is
            if all(kept):
                self.check.draw_again()
                self._undo()

    # --- parameters -----------------------------------------------------------------------------------------

    def _versions(self) -> Sequence[int]:
        return [parameter._version for parameter in self._prepared.parameters()]

    def _look_for_changes(self) -> None:
        """See whether the script has changed parameters itself in a pass whose gradients are kept back."""
        batch = self._batch
        if not batch.versions or batch.touched or not self._gradients.hidden:
            return
        written = batch.versions != self._versions()
        if batch.backup is not None:
            batch.touched = batch.backup.moved()
            self._writes_the_same |= written and not batch.touched
        else:
            batch.touched = written and not self._writes_the_same

    def _in_one_pass(self) -> None:
        self._batch.touched = False
        self._session.one_pass = True
        self._session.tell(BY_HAND)
        self._do_again(BY_HAND)

    def _undo(self) -> None:
        self._gradients.undo(self._batch.accumulated)

    def _do_again(self, why: str) -> None:
        if self._batch.backup is None:
            self._session.found_out()
            raise RuntimeError(f"{why}; {GOES_BACK}")
        self._undo()

    # --- what is kept of a batch ----------------------------------------------------------------------------

    def _look_at_memory(self) -> None:
        """See whether the model or script has put something of a part of a batch where all of it belongs."""
        batch = self._batch
        kept = self._memory.changed(batch.memory) if batch.memory else ""
        name = kept or self._rows_written()
        if not name:
            return
        whole = f"{name} changes with each batch; every replica computes whole batches, so that it is as alone"
        self._gradients.weights.only_whole(whole)
        batch.rows = ()
        if not kept and batch.backup is None:
            return  # rows that others have filled until now are written anew in the next pass over the data
        self._do_again(whole)
        self._memory.put_back(batch.memory)

    def _rows_written(self) -> str:
        """Return the name of a tensor that replicas have filled with rows of their own samples only."""
        written = (path for path, tensor, version in self._batch.rows if tensor._version != version)
        return next(written, "").rpartition("/")[2] if self._session.world_size > 1 else ""

    def _carries(self, layer: str) -> None:
        """Note that a recurrent layer goes on from the last batch. Raises ValueError where batches are divided."""
        sentence = CARRIED.format(layer)
        if self._session.divides:
            raise ValueError(sentence + SAY_IT)
        self._gradients.weights.only_whole(sentence + SEEN)

    # --- pieces ---------------------------------------------------------------------------------------------

    def _look_for_pieces(self, asked: bool) -> None:
        """See whether this part may be a piece of those that the script cuts of a batch; then see it whole."""
        weights = self._gradients.weights
        if self._sees_whole:
            self._sees_whole = weights.trial = False
        elif not self._gradients.undone and weights.take_doubt() and asked and self._gradients.backwards == 1:
            self._sees_whole = weights.trial = True
            self._undo()
        weights.new &= not asked or self._gradients.undone

    def _look_for_steps_of_pieces(self, part: int, batch: int, steps: int) -> None:
        """See whether the script makes more steps of a whole batch than of a part, by their sizes."""
        weights = self._gradients.weights
        if not steps or weights.undivided or self._gradients.undone:
            return
        seen = self._steps_made.setdefault((part, batch), deque(maxlen=ALIKE))
        seen.append(steps)
        whole = self._steps_made.get((batch, batch), ())
        if part < batch and _are_of_pieces(whole, [steps], part / batch):
            weights.only_whole(PIECES)
            self._do_again(PIECES)
        if part == batch and len(seen) == ALIKE:
            for (other, size), made in self._steps_made.items():
                if size == batch > other and len(made) == ALIKE and _are_of_pieces(seen, made, other / batch):
                    weights.only_whole(PIECES)
                    raise RuntimeError(f"{PIECES} from the first one on; {SAY_IT}")

    # --- what is left out -----------------------------------------------------------------------------------

    def _look_for_skips(self, place: tuple[int, int], in_parts: bool) -> None:
        """Give the whole batch where the script leaves a part of it out because of its size.

        The script may leave out the whole batch as well, as where the loss is no number, or in a loop without
        training.
        """
        weights, trained = self._gradients.weights, self._batch.trained
        if self._tries_whole:
            self._tries_whole = weights.trial = False
            if trained:
                weights.only_whole(SKIPS)
            else:
                self._left_out.add(place)
            return
        # A loop that takes batches by calls may have read one ahead.
        in_parts &= not (weights.undivided or self._session.by_next or self._gradients.undone)
        if in_parts and not trained and place not in self._left_out:
            self._tries_whole = weights.trial = True
            self._undo()


def _are_of_pieces(whole: Iterable[int], part: Iterable[int], share: float) -> bool:
    """Return whether the numbers of steps, of whole batches and of parts, go by their sizes."""
    if len(of_whole := set(whole)) != 1 or len(of_part := set(part)) != 1:
        return False
    (many,), (few,) = of_whole, of_part
    return few < many and abs(few - many * share) < 1.0


def _renormalised(prepared: Prepared) -> str:
    """Return the name of an embedding that changes its rows whenever they are looked up."""
    layers = (layer for model in prepared.modules for layer in model.named_modules())
    return next(
        (
            name
            for name, layer in layers
            if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.max_norm is not None
        ),
        "",
    )
