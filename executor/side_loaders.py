"""Loaders that the script did not give to `prepare`, of which its training loop takes batches as well.

An iterator that the loop advances is a side loader's: a batch that is given in several passes, or again, finds the
same side batches each time, and a process that comes in goes on with them where the others are. What is made and
used up by a `for` within the loop's body, such as a validation, is left alone.
"""

from __future__ import annotations

import inspect
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from .loop_habits import takes_by_next
from .rng import capture_rng, restore_rng
from .script_frames import is_own_object, script_frames

Key = tuple[int, int, int]  # of a batch: epoch, loop, number

LEADS = (
    "zip takes a batch of another loader before the prepared loader's, which may be given in several passes; "
    "write the prepared loader first: zip(loader, other)"
)
_STOPPED: Any = object()
_TAG = "_coadapt_taken"
_HERE = os.path.dirname(os.path.abspath(__file__))


class Loop(Protocol):
    """What the session says of the running loop."""

    in_iteration: bool  # the script has a part of a batch

    @property
    def in_loop(self) -> bool:
        """Whether an epoch or a step is under way."""

    @property
    def in_script_step(self) -> bool:
        """Whether a step of a loop in steps is, all of which may be done again."""

    @property
    def batch_key(self) -> Key:
        """Of the batch that is given next."""

    def note_counting(self, how: str) -> None: ...


@dataclass(eq=False)
class Taken:
    """What was taken of one iterator.

    It was made before training, or as the `number`-th of an `epoch` outside of its loops, or `in_part`: in the
    body of a loop, when the batch `born` was given. `lasting`: by a generator, which outlives the batch.
    `watched`: None until it is advanced in the body of a loop. `drew_from`: states of the loader's own generators
    before.
    """

    side: Side
    iterator: weakref.ref[Any]
    drew_from: list[Tensor] = field(default_factory=list)
    epoch: int = -1
    number: int = -1
    in_part: bool = False
    born: Key | None = None
    lasting: bool = False
    watched: bool | None = None
    count: int = 0
    stopped: bool = False

    @property
    def alive(self) -> bool:
        """Whether more may be taken of it."""
        return not self.stopped and getattr(self.iterator(), _TAG, None) is self


@dataclass(eq=False)
class Side:
    """One loader: what its iterators gave to the step in hand, and how much of that the running pass has `had`.

    `made`: its iterators that were made in the step's parts, which passes have had as well. `current`: the one
    that the loop advanced last. `lasting`: one that is made in a part is used in others. `of_epoch`: those that
    were made outside of parts in `epoch`.
    """

    loader: weakref.ref[Any] | None = None
    name: str = ""
    given: list[tuple[Taken, Any]] = field(default_factory=list)
    had: int = 0
    made: list[Any] = field(default_factory=list)
    had_made: int = 0
    current: Taken | None = None
    lasting: bool = False
    epoch: int = -1
    of_epoch: list[Taken] = field(default_factory=list)

    @property
    def exists(self) -> bool:
        loader = self.loader is not None and self.loader() is not None
        return loader or (self.current is not None and self.current.alive)

    def forget(self) -> None:
        """What was had will not be asked for again."""
        del self.made[: self.had_made]
        self.given = [(taken, item) for taken, item in self.given[self.had :] if taken.alive]
        self.had = self.had_made = 0

    def leave_alone(self, iterator: Any) -> None:
        """An iterator that was made in a part is none of the loop's."""
        if iterator in self.made:
            self.had_made -= self.made.index(iterator) < self.had_made
            self.made.remove(iterator)

    def state(self, epoch: int) -> dict[str, Any]:
        """How far it is, in plain values. `taken`: of the current iterator; None where there is none.

        `generators`: states of the loader's own now, and before the current iterator and each other was made.
        """
        current, loader = self.current, self.loader() if self.loader is not None else None
        mine = self.of_epoch if self.epoch == epoch else []
        return {
            "name": self.name,
            "taken": None if current is None else self._taken(current),
            "generators": {
                "now": [generator.get_state() for generator in _generators(loader)],
                "taken": [] if current is None else current.drew_from,
                "of_epoch": [one.drew_from for one in mine],
            },
            "lasting": self.lasting,
            "epoch": epoch,
            "of_epoch": [self._taken(one) for one in mine],
        }

    def _taken(self, one: Taken) -> int | None:
        ahead = self.ahead(one)
        return one.count - ahead if one.alive or ahead else None

    def ahead(self, one: Taken) -> int:
        """Batches that were taken of an iterator, and not had yet."""
        return sum(owner is one and item is not _STOPPED for owner, item in self.given[self.had :])


def counterpart(taken: Taken, state: dict[str, Any]) -> str | int | None:
    """Which of the others' iterators, by their loader's state, this one stands for.

    "taken": the current one; a number: that of the running epoch; None: none, it is a new one for the others, too.
    """
    if taken.in_part:
        return "taken" if state["lasting"] and state["taken"] is not None else None
    if taken.epoch < state["epoch"]:
        return "taken" if state["taken"] is not None else None
    if taken.epoch > state["epoch"] or taken.number >= len(state["of_epoch"]):
        return None
    if state["of_epoch"][taken.number] is not None:
        return taken.number
    return "taken" if state["taken"] is not None else None


def passed_by(taken: Taken, state: dict[str, Any]) -> int:
    """Batches that the others have had of the iterator that this one stands for, by their loader's state."""
    theirs = counterpart(taken, state)
    if theirs is None:
        return 0
    return int(state["taken"] if theirs == "taken" else state["of_epoch"][theirs])


def drawn_from(taken: Taken, state: dict[str, Any]) -> list[Tensor]:
    """What the loader's own generators were at when that one was made."""
    theirs, known = counterpart(taken, state), state["generators"]
    found: list[Tensor] = (
        known["now"] if theirs is None else known["taken"] if theirs == "taken" else known["of_epoch"][theirs]
    )
    return found


class SideLoaders:
    """Those of one training process."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._used: list[Side] = []  # in the body of a loop
        self._running: Key | None = None  # the batch that was given last
        self._marks: dict[Key, dict[Side, tuple[int, int]]] = {}  # where batches of the step in hand begin
        self._at_step: list[dict[str, Any]] = []  # states when the step in hand began
        self._at_loop: list[dict[str, Any]] = []
        self._pending: dict[str, dict[str, Any]] = {}  # of the process that this one goes on for
        self._leading: tuple[FrameType, int] | None = None  # where one was advanced outside of a part just now
        self._thread = threading.get_ident()
        self._asides: list[bool] = []  # of each pass of the batch: a loop within its body went over another loader

    # --- what the session says --------------------------------------------------------------------------

    def begin_loop(self, by_next: bool) -> None:
        """The first batch of a loop is asked for. Raises RuntimeError where zip has asked a side loader before."""
        leading, self._leading = self._leading, None
        if leading is not None and not by_next and leading == _place():
            raise RuntimeError(LEADS)

    def open(self, begins_step: bool) -> None:
        """A batch is given next, perhaps again."""
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
        """A pass of that batch begins."""
        self._asides.append(False)
        if self._running in self._marks:
            self._rewind(self._running)

    @property
    def looked_aside(self) -> bool:
        """Whether a loop within the body, such as a validation, went over another loader in this pass alone."""
        return self._asides[-1:] == [True] and not any(self._asides[:-1])

    def begin_step(self) -> None:
        """What was taken until now will not be asked for again."""
        for side in self._used:
            side.forget()
        self._marks = {}
        self._at_step = self._states()

    def again(self) -> None:
        """The running step of the script begins again."""
        for side in self._used:
            side.had = side.had_made = 0

    def catch_up(self) -> None:
        """The loop runs from its beginning to where the others are."""
        if self._pending:
            self._pending = {state["name"]: state for state in self._at_loop}

    # --- travelling -------------------------------------------------------------------------------------

    def capture(self) -> dict[str, Any]:
        """How far each loader is where the training is, which may be before a batch that is done again."""
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
        """The iterator that an earlier pass made where the running one iterates `loader`; None: there is none."""
        side = _side_of(loader)
        if not self._is_watching or side.had_made >= len(side.made) or not self._in_part:
            return None
        side.had_made += 1
        return side.made[side.had_made - 1]

    def made(self, taken: Taken, iterator: Any) -> None:
        """An iterator was made just now."""
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
        """The next batch of an iterator."""
        if not self._is_watching:
            return _given(_take(taken, step))
        if not self._in_part:
            item = _take(taken, step)
            leads = self._loop.in_loop and item is not _STOPPED and not takes_by_next()
            self._leading = _place() if leads else None
            return _given(item)
        if taken.watched is None:
            taken.watched = not taken.in_part or takes_by_next()
            if not taken.watched:
                taken.side.leave_alone(taken.iterator())
        if taken.watched:
            return _given(self._taken(taken, step))
        self._asides[-1:] = [True]
        return _given(_take(taken, step))

    def _taken(self, taken: Taken, step: Callable[[], Any]) -> Any:
        """What the running pass finds: what an earlier one has had, or the next batch."""
        side = taken.side
        if side not in self._used:
            self._begin_using(side)
        if side.name in self._pending:
            self._move_on(taken, self._pending.pop(side.name), step)
        if side.had == len(side.given):
            side.given.append((taken, _take(taken, step)))
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
            _draw_again(taken, drawn_from(taken, state))
        for _ in range(passed_by(taken, state) - (taken.count - side.ahead(taken))):
            if side.had < len(side.given):
                del side.given[side.had]
            elif _take(taken, step) is _STOPPED:
                break
        restore_rng(rng)

    def _rewind(self, key: Key) -> None:
        for side in self._used:
            side.had, side.had_made = self._marks[key].get(side, (0, 0))

    @property
    def _is_watching(self) -> bool:
        """Whether it is the loop that asks, and no thread that reads ahead."""
        return threading.get_ident() == self._thread

    @property
    def _in_part(self) -> bool:
        return self._loop.in_iteration or (self._loop.in_script_step and not _asked_by_session())


def _take(taken: Taken, step: Callable[[], Any]) -> Any:
    try:
        item = step()
    except StopIteration:
        taken.stopped = True
        return _STOPPED
    taken.count += 1
    return item


def _given(item: Any) -> Any:
    if item is _STOPPED:
        raise StopIteration
    return item


# --- who asks ---------------------------------------------------------------------------------------------


def _callers() -> Iterator[FrameType]:
    """Frames from whoever asks an iterator or a loader for something, outwards."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not _is_ours(frame):
            yield frame
        frame = frame.f_back


def _is_ours(frame: FrameType) -> bool:
    return os.path.dirname(frame.f_code.co_filename) == _HERE


def _place() -> tuple[FrameType, int]:
    """The function and the instruction that ask, through all generators in between."""
    frame = next(frame for frame in _callers() if not frame.f_code.co_flags & inspect.CO_GENERATOR)
    return frame, frame.f_lasti


def _made_by_generator() -> bool:
    return bool(next(_callers()).f_code.co_flags & inspect.CO_GENERATOR)


def _asked_by_session() -> bool:
    """Whether this is the prepared loader itself, or a function that draws its batches."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_ours(frame) and frame.f_code.co_name in ("_read_on", "_unit"):
            return True
        frame = frame.f_back
    return False


def _name_of(side: Side, others: Collection[str]) -> str:
    """A loader's name, the same in each process: the variable that holds it, and what it reads."""
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


# --- torch's loaders --------------------------------------------------------------------------------------

_sides: weakref.WeakKeyDictionary[Any, Side] = weakref.WeakKeyDictionary()
_watching: SideLoaders | None = None
_inside = False


def _side_of(loader: Any) -> Side:
    side = _sides.get(loader)
    if side is None:
        side = _sides[loader] = Side(weakref.ref(loader))
    return side


def watch(sides: SideLoaders | None) -> None:
    """Let `sides` know of what this process takes of loaders, and of those of torchdata if it uses that."""
    global _watching
    _watching = sides
    install()
    torchdata = sys.modules.get("torchdata.stateful_dataloader.stateful_dataloader")
    if torchdata is not None:
        _install_in(torchdata.StatefulDataLoader, torchdata._StatefulBaseDataLoaderIter)


def install() -> None:
    """Look at what is taken of loaders; before a script imports anything, in a managed process."""
    _install_in(DataLoader, _BaseDataLoaderIter)
    real = itertools.cycle
    if not hasattr(real, "_coadapt"):

        class cycle(real):  # type: ignore[misc, valid-type]
            __doc__ = real.__doc__
            _coadapt = True

            def __new__(cls, iterable: Any) -> Any:
                loader = isinstance(iterable, DataLoader) and type(iterable).__iter__ is DataLoader.__iter__
                return Cycle(iterable) if loader else real(iterable)

        itertools.cycle = cycle  # type: ignore[misc]


def _install_in(loader: type, iterator: type) -> None:
    make, step = vars(loader)["__iter__"], vars(iterator)["__next__"]
    if hasattr(make, "_coadapt"):
        return

    def __iter__(self: Any) -> Any:
        if _inside or _is_ours(sys._getframe(1)):
            return make(self)
        if _watching is not None and (found := _watching.made_before(self)) is not None:
            return found
        drew_from = _order_begins(self)
        made = make(self)
        _tag(made, _side_of(self), drew_from)
        return made

    def __next__(self: Any) -> Any:
        if _watching is None or _inside:
            taken = vars(self).get(_TAG)
            return step(self) if taken is None or _inside else _given(_take(taken, lambda: step(self)))
        return _advance(self, lambda: step(self))

    __iter__._coadapt = True  # type: ignore[attr-defined]
    loader.__iter__, iterator.__next__ = __iter__, __next__  # type: ignore[attr-defined]


def _generators(loader: Any) -> list[torch.Generator]:
    """A loader's own, and its samplers'."""
    samplers = [getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)]
    holders = [loader, *samplers, *(getattr(sampler, "sampler", None) for sampler in samplers)]
    found = [getattr(holder, "generator", None) for holder in holders]
    return list({id(one): one for one in found if isinstance(one, torch.Generator)}.values())


def _order_begins(loader: Any) -> list[Tensor]:
    """States of its generators where an iterator that is made now draws its order."""
    states = [generator.get_state() for generator in _generators(loader)]
    if loader.generator is not None and _persists(loader) and loader._iterator is None:
        seeded = torch.Generator()  # the workers' seed is drawn once, before the first order
        seeded.set_state(states[0])
        torch.empty((), dtype=torch.int64).random_(generator=seeded)
        states[0] = seeded.get_state()
    return states


def _persists(loader: Any) -> bool:
    return bool(loader.persistent_workers and loader.num_workers)


def _draw_again(taken: Taken, states: list[Tensor]) -> None:
    """Make an iterator that gave nothing yet draw its order from generators in these states."""
    iterator, loader = taken.iterator(), taken.side.loader() if taken.side.loader is not None else None
    generators = _generators(loader)
    if loader is None or iterator is None or not generators or len(generators) != len(states):
        return
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state.cpu())
    taken.drew_from = states
    if isinstance(iterator, Cycle):
        iterator.begin(loader)
        return
    if _persists(loader):
        iterator._reset(loader)
        return
    # The script holds the iterator itself: it becomes the new one, and the old one goes with what it had.
    other = loader._get_iterator()
    iterator.__dict__, other.__dict__ = other.__dict__, iterator.__dict__
    setattr(iterator, _TAG, taken)


def _tag(iterator: Any, side: Side, drew_from: list[Tensor]) -> Taken:
    taken = Taken(side, weakref.ref(iterator), drew_from)
    setattr(iterator, _TAG, taken)
    if _watching is not None:
        _watching.made(taken, iterator)
    return taken


def _advance(iterator: Any, step: Callable[[], Any]) -> Any:
    """Ask what watches; what `step` asks of other iterators is its own."""

    def inside() -> Any:
        global _inside
        _inside = True
        try:
            return step()
        finally:
            _inside = False

    taken = vars(iterator).get(_TAG)
    if taken is None:
        if _is_ours(sys._getframe(2)):
            return step()
        taken = Taken(Side(), weakref.ref(iterator))
        setattr(iterator, _TAG, taken)
    assert _watching is not None
    return _watching.advance(taken, inside)


class Cycle:
    """`itertools.cycle` of a loader: the same batches again and again, which are kept."""

    def __init__(self, loader: Any) -> None:
        self._items: Iterator[Any] | None = None
        self._kept: list[Any] = []
        self._next = 0
        drew_from = _order_begins(loader)
        self.begin(loader)
        _tag(self, _side_of(loader), drew_from)

    def begin(self, loader: Any) -> None:
        global _inside
        before, _inside = _inside, True
        try:
            self._items = iter(loader)
        finally:
            _inside = before

    def __iter__(self) -> Cycle:
        return self

    def __next__(self) -> Any:
        return self._step() if _inside or _watching is None else _advance(self, self._step)

    def _step(self) -> Any:
        if self._items is not None:
            try:
                self._kept.append(next(self._items))
            except StopIteration:
                self._items = None
            else:
                return self._kept[-1]
        if not self._kept:
            raise StopIteration
        self._next += 1
        return self._kept[(self._next - 1) % len(self._kept)]
