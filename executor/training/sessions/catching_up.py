"""A process that comes in brings its script to where the others are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..data.batches import Unit, another
from ..data.side_loaders import SideLoaders
from ..gradients.gradients import Gradients
from ..gradients.part_plan import PartPlan
from ..state.beside import Beside
from ..state.prepared import Prepared
from ..state.step_backup import StepBackup
from ..state.training_state import TrainingState, as_current
from ..variables.own_variables import OwnVariables
from ..variables.rng import capture_rng, restore_rng
from ..variables.script_classes import NotMade
from .loop_state import LoopState
from .peers import Peers
from .sample_counts import SampleCounts

_Taken = TypeVar("_Taken")


class Unfit(RuntimeError):
    """Raised where a newcomer cannot take over the state of the others; one sentence for the script's owner."""


@dataclass(eq=False)
class CatchingUp:
    """Takes over a state, and puts each part of it in place as soon as the script is ready for it."""

    prepared: Prepared
    state: TrainingState
    variables: OwnVariables
    loop: LoopState
    samples: SampleCounts
    gradients: Gradients
    sides: SideLoaders
    peers: Peers

    def __post_init__(self) -> None:
        self.of_peers = False  # whether the state is that of processes that train, not of a checkpoint
        self._began = False  # whether the script's loop began
        self._here = (-1, -1)  # the pass and the loop within it that the last batch was of

    def take_over(self, state: dict[str, Any], rank: int) -> None:
        """Go on from a state. Raises ValueError where it is that of another script.

        A script may change this state before its loop, but goes on from here all the same.
        """
        self.state.apply(state, rank)
        self.state.taken = None if self._began else as_current(state)

    def begin_script(self) -> None:
        """Begin the script's loop: the script has set itself up, and may have changed what it has taken over."""
        self._began = True
        if self.state.taken is not None:
            self.state.put_back(self.state.taken, self.peers.seed_rank)
        self.variables.begin()

    def begin_pass(self) -> bool:
        """Put variables in place for a pass over the data; returns whether it is under way already."""
        return self._take_variables(self.variables.begin_pass)

    def enter_loop(self, unit: Unit) -> Generator[Any, None, Unit]:
        """Bring a loop that is behind to where the others are; returns the batch that it is given next."""
        if self.loop.is_behind:
            unit = yield from self._catch_up(unit)
            self.arrive()
        return unit

    def arrive(self) -> None:
        """Put everything in place for the batch that comes next."""
        taken, self.state.taken = self.state.taken, None
        if taken is not None and taken["variables"]["in_pass"]:
            self.state.put_back(taken, self.peers.seed_rank)
        here = self.loop.position.epoch, self.loop.position.loop
        if here != self._here:
            self._here = here
            self.variables.begin_loop()
        samples = self._take_variables(self.variables.arrive)
        if samples is not None:
            self.samples.go_on_from(samples)

    def _catch_up(self, unit: Unit) -> Generator[Any, None, Unit]:
        """Let a loop that counts what it takes run on one batch, for nothing, to where the others are."""
        loop, step = self.loop, self.loop.step
        batch = unit.fetch()
        before = StepBackup(self.prepared), Beside(self.prepared, full=True), capture_rng()
        step.void = loop.in_iteration = True
        self.sides.catch_up()
        for _ in range(loop.given, loop.position.batch):
            self.gradients.begin_part(PartPlan(1, 1, visible=False, void=True))
            yield another(batch, deep=True)
            loop.given += 1
        step.void = loop.in_iteration = False
        backup, beside, rng = before
        backup.restore()
        beside.restore()
        restore_rng(rng)
        step.forget_schedule_calls()
        data = itertools.chain([batch], (unit.fetch() for _ in unit.parts[1:]))

        def fetch() -> Any:
            return next(data)

        return replace(unit, fetch=fetch)

    def _take_variables(self, begin: Callable[[int, int], _Taken]) -> _Taken:
        """Take variables over, if there are any. Raises Unfit, with the reason, for a newcomer that cannot."""
        try:
            return begin(self.peers.rank, self.peers.world_size)
        except NotMade as why:
            if not self.of_peers:
                raise
            raise Unfit(f"the job cannot grow: {why}") from None
