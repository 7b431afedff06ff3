"""Loaders that the script did not give to `prepare`, and of which its training loop takes batches as well.

An iterator that the loop advances is a side loader's. A batch that is given in several passes, or again, finds
the same side batches each time. A process that comes in goes on with them where the others are.
An iterator that a `for` within the loop's body makes and uses up, such as a validation's, is left alone.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from types import FrameType
from typing import Any, Protocol

from torch.utils.data import DataLoader

from ..variables.own_code import is_ours, is_reading_batches
from ..variables.rng import capture_rng, restore_rng
from ..variables.script_frames import is_own_object, script_frames
from .loop_habits import takes_by_next
from .side_iterators import STOPPED, Key, Side, Taken, draw_again, drawn_from, given, passed_by, side_of, take

LEADS = (
    "zip takes a batch of another loader before the prepared loader's, which may be given in several passes; "
    "write the prepared loader first: zip(loader, other)"
)


class Loop(Protocol):
    """Answers what side loaders ask of the session about the running loop."""

    in_iteration: bool  # whether the script has a part of a batch

    @property
    def in_loop(self) -> bool:
        """Whether an epoch or a step is under way."""

    @property
    def in_script_step(self) -> bool:
        """Whether a step of a loop in steps is under way, all of which may be done again."""

    @property
    def batch_key(self) -> Key:
        """The key of the batch that is given next."""

    def note_counting(self, how: str) -> None: ...


class SideLoaders:
    """The side loaders of one training process."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._used: list[Side] = []  # whether the script is in the body of a loop
        self._running: Key | None = None  # the batch that was given last
        self._marks: dict[Key, dict[Side, tuple[int, int]]] = {}  # where batches of the step in hand begin
        self._at_step: list[dict[str, Any]] = []  # states when the step in hand began
        self._at_loop: list[dict[str, Any]] = []
        self._pending: dict[str, dict[str, Any]] = {}  # states of the process that this one goes on for
        self._leading: tuple[FrameType, int] | None = None  # where one was advanced outside of a part just now
        self._thread = threading.get_ident()
        # of each pass of the batch: whether a loop within its body went over another loader
        self._asides: list[bool] = []

    # --- what the session says --------------------------------------------------------------------------

    def begin_loop(self, by_next: bool) -> None:
        """Begin a loop. Raises RuntimeError where zip asked a side loader before it."""
        leading, self._leading = self._leading, None
        if leading is not None and not by_next and leading == _place():
            raise RuntimeError(LEADS)

    def open(self, begins_step: bool) -> None:
        """Begin a batch, perhaps again."""
        key, self._asides = self._loop.batch_key, []
        self._running = key
        if key in self._marks:
            self._rewind(key)
            return
        if begins_step:
            self.begin_step()
        if key[2] == 0:
            self._at_loop = self._states()
        self._marks[key] = {side: (side.had, side.had_made) for side in self._used}

    def begin_part(self) -> None:
        """Begin a pass of that batch."""
        self._asides.append(False)
        if self._running in self._marks:
            self._rewind(self._running)

    @property
    def looked_aside(self) -> bool:
        """Whether a loop in the body, such as a validation, went over another loader in this pass alone."""
        return self._asides[-1:] == [True] and not any(self._asides[:-1])

    def begin_step(self) -> None:
        """Begin a step: what was taken until now will not be asked for again."""
        for side in self._used:
            side.forget()
        self._marks = {}
        self._at_step = self._states()

    def again(self) -> None:
        """Begin the running step of the script again."""
        for side in self._used:
            side.had = side.had_made = 0

    def catch_up(self) -> None:
        """Run the loop from its beginning to where the others are."""
        if self._pending:
            self._pending = {state["name"]: state for state in self._at_loop}

    # --- travelling -------------------------------------------------------------------------------------

    def capture(self) -> dict[str, Any]:
        """Return how far each loader is where the training is, perhaps before a batch that is done again."""
        by_steps = self._loop.in_script_step
        if self._loop.batch_key in self._marks or (by_steps and not self._marks):
            return {"now": self._at_step, "loop": self._at_loop}
        if not by_steps:
            self.begin_step()
        return {"now": self._states(), "loop": self._at_loop}

    def load(self, state: dict[str, Any]) -> None:
        """Go on for another process, with each loader when the loop asks for it."""
        key = self._loop.batch_key
        if key in self._marks:
            self._rewind(key)
        self._marks, self._at_loop = {}, state["loop"]
        self._pending = {one["name"]: one for one in state["now"]}

    def _states(self) -> list[dict[str, Any]]:
        mine = {side.name: side.state(self._loop.batch_key[0]) for side in self._used if side.exists}
        return list({**mine, **self._pending}.values())

    # --- iterators --------------------------------------------------------------------------------------

    def made_before(self, loader: DataLoader[Any]) -> Any:
        """Return the iterator that an earlier pass made where the running one iterates `loader`, if any."""
        side = side_of(loader)
        if not self._is_watching or side.had_made >= len(side.made) or not self._in_part:
            return None
        side.had_made += 1
        return side.made[side.had_made - 1]

    def made(self, taken: Taken, iterator: Any) -> None:
        """Note that an iterator was made just now."""
        side, epoch = taken.side, self._loop.batch_key[0]
        if not self._is_watching:
            return
        if self._in_part:
            taken.in_part, taken.born, taken.lasting = True, self._running, _made_by_generator()
            side.made.append(iterator)
            side.had_made = len(side.made)
        elif self._loop.in_loop:
            if side.epoch != epoch:
                side.epoch, side.of_epoch = epoch, []
            taken.epoch, taken.number = epoch, len(side.of_epoch)
            side.of_epoch.append(taken)

    def advance(self, taken: Taken, step: Callable[[], Any]) -> Any:
        """Return the next batch of an iterator."""
        if not self._is_watching:
            return given(take(taken, step))
        if not self._in_part:
            item = take(taken, step)
            leads = self._loop.in_loop and item is not STOPPED and not takes_by_next()
            self._leading = _place() if leads else None
            return given(item)
        if taken.watched is None:
            taken.watched = not taken.in_part or takes_by_next()
            if not taken.watched:
                taken.side.leave_alone(taken.iterator())
        if taken.watched:
            return given(self._taken(taken, step))
        self._asides[-1:] = [True]
        return given(take(taken, step))

    def _taken(self, taken: Taken, step: Callable[[], Any]) -> Any:
        """Return what the running pass finds: what an earlier one has had, or the next batch."""
        side = taken.side
        if side not in self._used:
            self._begin_using(side)
        if side.name in self._pending:
            self._move_on(taken, self._pending.pop(side.name), step)
        if side.had == len(side.given):
            side.given.append((taken, take(taken, step)))
        side.current, item = side.given[side.had]
        side.had += 1
        side.lasting |= side.current.in_part and (side.current.lasting or side.current.born != self._running)
        return item

    def _begin_using(self, side: Side) -> None:
        side.name = _name_of(side, {other.name for other in self._used if other.exists})
        self._used = [other for other in self._used if other.name != side.name] + [side]
        self._loop.note_counting("another loader")

    def _move_on(self, taken: Taken, state: dict[str, Any], step: Callable[[], Any]) -> None:
        """Pass by what the others have had."""
        side = taken.side
        side.lasting |= state["lasting"]
        rng = capture_rng()
        if not taken.count:
            draw_again(taken, drawn_from(taken, state))
        for _ in range(passed_by(taken, state) - (taken.count - side.ahead(taken))):
            if side.had < len(side.given):
                del side.given[side.had]
            elif take(taken, step) is STOPPED:
                break
        restore_rng(rng)

    def _rewind(self, key: Key) -> None:
        for side in self._used:
            side.had, side.had_made = self._marks[key].get(side, (0, 0))

    @property
    def _is_watching(self) -> bool:
        """Whether the loop asks, and no thread that reads ahead."""
        return threading.get_ident() == self._thread

    @property
    def _in_part(self) -> bool:
        return self._loop.in_iteration or (self._loop.in_script_step and not _asked_by_session())


# --- who asks ---------------------------------------------------------------------------------------------


def _callers() -> Iterator[FrameType]:
    """Yield frames from whoever asks an iterator or a loader for something, outwards."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_ours(frame):
            yield frame
        frame = frame.f_back


def is_for_us(frame: FrameType) -> bool:
    """Return whether our own code asks for something, and no `zip` or `enumerate` of the script's."""
    return is_ours(frame) and not frame.f_code.co_filename.endswith("counted_loops.py")


def _place() -> tuple[FrameType, int]:
    """Return the function and the instruction that ask, through all generators in between."""
    frame = next(frame for frame in _callers() if not frame.f_code.co_flags & inspect.CO_GENERATOR)
    return frame, frame.f_lasti


def _made_by_generator() -> bool:
    return bool(next(_callers()).f_code.co_flags & inspect.CO_GENERATOR)


def _asked_by_session() -> bool:
    """Return whether this is the prepared loader itself, or a function that draws its batches."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_reading_batches(frame):
            return True
        frame = frame.f_back
    return False


def _name_of(side: Side, others: Collection[str]) -> str:
    """Return a loader's name, the same in each process: the variable that holds it, and what it reads."""
    loader = side.loader() if side.loader is not None else None
    name = f"{_variable_of(loader)} {_kind_of(loader)}"
    more = (f"{name} {number}" for number in itertools.count(2))
    return next(one for one in itertools.chain([name], more) if one not in others)


def _variable_of(loader: Any) -> str:
    for frame in script_frames():
        for name, value in list(frame.f_locals.items()):
            if value is loader:
                return name
            for inner, held in list(vars(value).items()) if is_own_object(value) else ():
                if held is loader:
                    return f"{name}.{inner}"
    return ""


def _kind_of(loader: Any) -> str:
    try:
        return f"{type(loader.dataset).__name__} {len(loader.dataset)} {loader.batch_size}"
    except (AttributeError, TypeError):
        return type(loader).__name__
