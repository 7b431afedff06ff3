"""The script's loops over `coadapt.epochs` and `coadapt.steps`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Protocol

from .loop_state import LoopState
from .script_progress import ScriptProgress
from .session import check_count

ONE_KIND = "the script has other loops over both coadapt.epochs and coadapt.steps; one job counts by one of them"


class ScriptEvents(Protocol):
    """What the session does at the ends of epochs and steps."""

    @property
    def completed(self) -> bool: ...

    def begin_script(self) -> None:
        """Begin the training, or go on with it: the script has set itself up."""

    def begin_pass(self) -> None:
        """Begin a pass over the data."""

    def end_pass(self, epoch: int) -> None:
        """End the pass number `epoch` over the data."""

    def begin_script_step(self) -> None:
        """Begin a step of the script."""

    def end_script_step(self) -> None:
        """End a step of the script."""

    def show(self, progress: float, count: int) -> int:
        """Return the number of an epoch or step for the script."""


class ScriptLoops:
    """Hands out the numbers of epochs and steps that are still to do."""

    def __init__(self, loop: LoopState, progress: ScriptProgress, events: ScriptEvents) -> None:
        self._loop, self._progress, self._events = loop, progress, events
        self._begun = 0  # loops over epochs or steps

    def epochs(self, count: int) -> Iterator[int]:
        """Yield the epochs that are still to do; all ranks pass the end of a pass over the data together.

        Where the batch is adapted an epoch is one of progress: it may take more than one pass. All passes but
        the first have numbers that equal nothing.
        """
        check_count("epochs", count)
        loop, events = self._loop, self._events
        if loop.step_count is not None:
            raise RuntimeError(f"epochs: {ONE_KIND}")
        left = functools.partial(events.end_pass, loop.position.epoch)
        if (before := self._begin(lambda: self._progress.epochs_done, left)) is None:
            return
        loop.epoch_count = before + count
        events.begin_script()
        while not events.completed:
            epoch, loop.loops_seen = loop.position.epoch, 0
            events.begin_pass()
            number = events.show(self._progress.epochs_done - before, count)
            yield from self._guarded(number)
            events.end_pass(epoch)

    def steps(self, count: int) -> Iterator[int]:
        """Yield the script's steps that are still to do, counted by progress where the batch is adapted."""
        check_count("steps", count)
        loop, events = self._loop, self._events
        position, step = loop.position, loop.step
        if loop.epoch_count is not None:
            raise RuntimeError(f"steps: {ONE_KIND}")
        if (before := self._begin(lambda: position.script_steps, events.end_script_step)) is None:
            return
        loop.step_count = before + count
        events.begin_script()
        events.begin_pass()
        loop.loops_seen = position.loop
        while not events.completed or (step.ahead and not position.ended):  # none is left half done
            events.begin_script_step()
            number = events.show(position.script_steps - before, count)
            yield from self._guarded(number)
            # `zip(steps, loader)` asks for a number with each pass of a batch.
            while step.running is not None and loop.partial:
                yield from self._guarded(number)
            events.end_script_step()

    def _begin(self, done: Callable[[], float], end_left: Callable[[], None]) -> float | None:
        """Begin another loop over epochs or steps, when `done()` of them are over.

        `end_left` ends the one that the script has left by `break` in the loop before.
        Returns how many were over before this loop. Returns None where the loop itself was over before this
        process came in or was started again.
        """
        position, number = self._loop.position, self._begun
        self._begun += 1
        if number > len(position.ends):
            if position.begun:
                end_left()
            position.ends.append(done())
            position.ended, position.shown = False, -1
        if number < len(position.ends):
            return None
        return position.ends[-1] if position.ends else 0.0

    def _guarded(self, number: int) -> Iterator[int]:
        self._loop.in_loop = True
        try:
            yield number
        except GeneratorExit:
            # The script has left by `break`, since an exception would end the script as well.
            self._loop.position.ended = True
            raise
        finally:
            self._loop.in_loop = False
