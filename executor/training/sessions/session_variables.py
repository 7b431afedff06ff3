"""The script's own variables in a managed run: looked at with each batch, and put back where one is undone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from ..checks.batch_watch import BatchWatch, Rows
from ..data.batches import Unit
from ..data.side_loaders import SideLoaders
from ..data.units import Part
from ..gradients.gradients import Gradients
from ..losses.loss_kind import Kind
from ..state.beside import Beside, Followers, is_small
from ..state.prepared import Prepared
from ..variables.own_variables import OwnVariables
from ..variables.script_frames import leave_out
from ..variables.script_sums import Given
from ..variables.seen_sums import SeenSums
from ..variables.whole_values import norms, rates_of
from .batch_loop import BatchLoop
from .loop_state import LoopState
from .peers import Peers
from .sample_counts import SampleCounts

MOST_COMBINED = 4096  # numbers of a pass that are known to be those of all replicas


class SessionVariables:
    """Tells `OwnVariables` of each batch. Until it is over, it keeps what models hold beside their parameters."""

    def __init__(
        self,
        prepared: Prepared,
        loop: LoopState,
        samples: SampleCounts,
        peers: Peers,
        gradients: Gradients,
        watch: BatchWatch,
        sides: SideLoaders,
        data: BatchLoop,
    ) -> None:
        self._prepared, self._loop, self._step = prepared, loop, loop.step
        self._samples, self._peers, self._gradients = samples, peers, gradients
        self._watch, self._sides, self._data = watch, sides, data
        self.own = OwnVariables(
            [*prepared.modules, *prepared.companions],
            prepared.things(),
            prepared.ordering_generators(),
            prepared.reading_generators(),
        )
        for maker in prepared.makers():
            leave_out(maker)
        self._beside: Beside | None = None  # the state before the running batch
        self._beside_first: Beside | None = None  # the state before the first batch of the running step
        self._beside_step: Beside | None = None  # the state before the running step of a loop in steps
        self._seen = SeenSums()
        self._combined: set[float] = set()  # numbers of all replicas that the script has combined in this pass
        self._followers = Followers(prepared)
        self._several = False  # whether the running batch takes several passes
        self._little_beside = is_small(prepared) and bool(prepared.companions or prepared.users)

    # --- travelling -----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return what another process needs to go on, and tell the user which variables are too large for that."""
        if left := self.own.too_large:
            self._peers.tell(
                f"{', '.join(sorted(left))} of the script is too large to be kept in checkpoints and handed to "
                "newcomers; give prepare an object with state_dict and load_state_dict"
            )
        return self.own.state(self._loop.in_loop, self._loop.position.pass_samples)

    def accumulated(self) -> dict[int, Any]:
        """Return gradients that the script has accumulated and not stepped by, by number of the parameter."""
        return self._gradients.accumulated() if self._step.unstepped else {}

    def load_accumulated(self, gradients: dict[int, Any]) -> None:
        """Go on with accumulated gradients of another process."""
        self._gradients.load_accumulated(gradients)
        self._step.unstepped = bool(gradients)

    def look_as_one(self) -> None:
        """Find out what one process would have now; every rank calls this. Raises GroupBroken."""
        group = self._peers.group
        if group is not None and group.world_size > 1:
            self.own.look_as_one(group, self._samples.since)

    # --- batches --------------------------------------------------------------------------------------------

    def begin_pass(self) -> None:
        """Forget what was kept of the pass before."""
        self._beside, self._combined = None, set()

    def open_unit(self, unit: Unit) -> None:
        """Keep what the batch that is given next may change."""
        self._several = several = len(unit.parts) > 1
        first, replicas = not self._step.ahead, self._peers.world_size
        self.own.begin_batch(replicas > 1 or self._watch.compares_whole, several, first)
        earlier = self._beside if first or self._beside is not self._beside_first else None
        self._beside = None
        if several or replicas > 1:
            full = several or self._little_beside
            self._beside = Beside(self._prepared, full, several, earlier, self._followers.look())
        if first:
            self._beside_first = self._beside

    def before_part(self, part: Part) -> None:
        """Begin to look at what the script adds up in a part."""
        self._gradients.keeps_loss = self.own.looks
        if self.own.looks:
            self._seen.begin(part.samples)
        self.own.begin_part(not self._loop.partial, not part.counts, self._has_trained)

    def _has_trained(self) -> bool:
        return self._gradients.backwards > 0

    def part_over(self) -> None:
        """Stop looking at sums."""
        self._seen.end()

    def after_part(self, part: Part) -> None:
        """Take in what the script did with a part."""
        batch, last = self._step.batch, not self._loop.partial

        def added(counts: Sequence[Any]) -> list[Any]:
            return [*self._added_losses(part.samples), *self._seen.over([part.samples, *counts])]

        def sizes() -> set[int]:
            return set(_sizes_in(batch))

        given = Given(part.samples, self._step.ahead[-1].samples, added, sizes)
        self.own.end_part(given, last, self._whole_values, last_alone=self._sides.looked_aside)
        self._seen.drop()
        if self._several and self._beside is not None:
            self._beside.pass_done(part.samples, last)

    def after_loop(self) -> None:
        """Remember the variables' values, for what the script makes of its sums after a loop."""
        if self._peers.world_size > 1:
            self.own.loop_ended()

    def undo_batches(self) -> None:
        """Put back what the batches of the running step have changed."""
        self.own.undo_batches()
        if self._beside_first is not None:
            self._beside_first.restore()

    def begin_step(self) -> None:
        """Keep what a step of a loop in steps may change."""
        if self._peers.world_size > 1:
            self.own.begin_step()
            self._beside_step = Beside(self._prepared, full=self._little_beside)

    def undo_step(self) -> None:
        """Put back what the running step of a loop in steps has changed."""
        self.own.undo_step()
        if self._beside_step is not None:
            self._beside_step.restore()

    def mark_rows(self) -> Rows:
        """Mark tensors that have a row for each sample of the data."""
        size = self._data.source.size
        return self.own.rows(size) if size else ()

    def _whole_values(self) -> list[float]:
        return [*norms(), *rates_of(self._prepared.optimizers, self._prepared.schedulers)]

    def _added_losses(self, samples: int) -> list[float]:
        """Return what a sum of the last loss would grow by, over this part's samples or what the loss counts."""
        loss, term = self._gradients.loss, self._gradients.loss_term
        if loss is None or loss.numel() != 1 or 1 < samples == self._loop.position.per_step:
            return []  # a loss divided by as many batches, times the samples, would be the loss itself
        value = float(loss) / self._prepared.loss_scale
        added = [value * samples]
        if term is not None and term.weight is not None:
            added.append(value * float(term.weight))
        elif term is not None and term.kind is Kind.SUM:
            added.append(value)
        return added

    # --- metrics --------------------------------------------------------------------------------------------

    def note_combined(self, value: Any) -> None:
        """Remember a value that is that of all replicas."""
        if isinstance(value, int | float) and len(self._combined) < MOST_COMBINED:
            self._combined.add(value)

    def counts_samples(self, value: float) -> bool:
        """Return whether a metric is a count over this replica's samples.

        Counts that are alike on all replicas by chance would be taken for one count of all.
        """
        return isinstance(value, int) and value not in self._combined and self.own.counts_samples(value)

    def mean_over(self, value: Any) -> float | None:
        """Return what a mean is over; None where that is not seen."""
        if not isinstance(value, float):
            return None
        if (count := self.own.mean_over(value, self._samples.shared)) is not None:
            return count
        # What was added up before replicas came is the same on all of them.
        batches = self._data.batch_count() if self._data.source.size is not None else 0
        of_batches = self.own.is_mean_of_batches(value, batches)
        return float(self._samples.since) if of_batches else None

    def part_of(self, value: float) -> float | None:
        """Return `OwnVariables.part_of` for a sum divided by the number of all samples, as by `len(data)`."""
        size = self._data.source.size
        if size is None:
            return None
        return self.own.part_of(value, size, self._samples.local, self._combined)


def _sizes_in(batch: Any) -> Iterator[int]:
    """Yield the number of elements of each tensor or array of a batch."""
    if isinstance(batch, Tensor | np.ndarray):
        yield batch.numel() if isinstance(batch, Tensor) else batch.size
    elif isinstance(batch, dict | list | tuple):
        for item in batch.values() if isinstance(batch, dict) else batch:
            yield from _sizes_in(item)
