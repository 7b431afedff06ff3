"""Batches without a `DataLoader`: a function of the script draws them, or an iterable gives them."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import numpy as np
import torch

from ..collective.broadcast import broadcast_state
from ..collective.group import Group
from ..variables import script_random
from ..variables.rng import RandomState
from .alone import seen_alone
from .batches import EpochSeed, Place, Reader, Source, length_of, slices
from .orders import LOOP_STRIDE
from .units import Split

_END = object()


class _Generated:
    """Calls a generator function anew for each loop."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self.make = make

    def __iter__(self) -> Iterator[Any]:
        return self.make()


def _needed_arguments(draw: Any) -> list[str]:
    """Return the names of arguments that a function cannot be called without."""
    try:
        parameters = inspect.signature(draw).parameters.values() if inspect.isroutine(draw) else ()
    except ValueError:  # a builtin may not say
        return []
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return [p.name for p in parameters if p.default is p.empty and p.kind not in several]


class Batches:
    """What `coadapt.batches` returns: batches that a function draws, or that an iterable gives.

    Iterated before `prepare`, or when a script runs by itself, it gives the batches as they are. Raises
    TypeError for what draws nothing.
    """

    drop_last = False

    def __init__(self, draw: Callable[[], Any] | Iterable[Any], batch_size: int | None = None) -> None:
        if not callable(draw) and not isinstance(draw, Iterable):
            raise TypeError(
                f"batches: a {type(draw).__name__} draws nothing; a function without arguments that returns a "
                "batch, or an iterable of indices or batches is accepted"
            )
        if needed := _needed_arguments(draw):
            name = getattr(draw, "__name__", "draw")
            raise TypeError(
                f"batches: {name} needs {', '.join(needed)}; a function without arguments is accepted, such as "
                f"lambda: {name}(…)"
            )
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batches: batch_size {batch_size} is less than 1")
        # A generator function makes the batches of one loop at a time.
        self.draw = _Generated(draw) if inspect.isgeneratorfunction(draw) else draw
        self.given_size = batch_size
        self._drawn: Iterator[Any] | None = None

    @property
    def batch_size(self) -> int:
        """The samples of a batch: as given, or those of the first one."""
        if self.given_size is not None:
            return self.given_size
        first = self.first
        return 1 if first is None else length_of(first)

    @functools.cached_property
    def first(self) -> Any:
        """The first batch, drawn ahead under the seed of the script; None where there is none."""
        if callable(self.draw):
            with RandomState(draw_seed(torch.initial_seed(), 0)).borrowed(), seen_alone():
                return self.draw()
        before = script_random.capture(self.draw)
        batches = self.whole()
        first = next(batches, None)
        if not self.gives_once:
            script_random.restore(self.draw, before)
        if self.gives_once and first is not None:
            self.draw = itertools.chain([first], batches)
        return first

    def __len__(self) -> int:
        if isinstance(self.draw, Sized) and not callable(self.draw):
            count = len(self.draw)
            return count if self.given_size is None else -(-count // self.given_size)
        raise TypeError("batches that a function draws have no end, and so no length")

    @property
    def endless(self) -> bool:
        return callable(self.draw)

    @property
    def gives_once(self) -> bool:
        """Whether it is an iterator, such as a generator, which gives each item once."""
        return not callable(self.draw) and isinstance(self.draw, Iterator)

    def __iter__(self) -> Iterator[Any]:
        return self.whole()

    def __next__(self) -> Any:
        if self._drawn is None:
            self._drawn = iter(self)
        try:
            return next(self._drawn)
        except StopIteration:
            self._drawn = None
            raise

    def whole(self) -> Iterator[Any]:
        """Return whole batches: the function's, or the iterable's, indices put together by `batch_size`."""
        if callable(self.draw):
            draw = self.draw
            return (draw() for _ in itertools.count())
        items = iter(self.draw)
        first = next(items, _END)
        if first is _END:
            return iter(())
        items = itertools.chain([first], items)
        if not isinstance(first, int | np.integer):
            return items
        if self.given_size is None:
            raise ValueError("batches: the sampler gives single indices; say batch_size, how many make a batch")
        return _grouped(items, self.given_size)


def _grouped(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while group := list(itertools.islice(items, size)):
        yield group


def drawn_source(batches: Batches, epoch_seed: EpochSeed) -> Source:
    return FunctionSource(batches, epoch_seed) if batches.endless else IterableSource(batches, epoch_seed)


def draw_seed(seed: int, number: int) -> int:
    """Return the seed of the random numbers of one draw."""
    return hash((seed, number)) % 2**63


class FunctionSource:
    """Batches that a function draws: every replica has the whole batch and takes its part.

    A function draws under random numbers of that draw, the same on all ranks. Where it keeps numbers or a
    generator of its own, one replica asks it and tells the others.
    """

    fusable = False
    workers = 0
    size: int | None = None

    def __init__(self, batches: Batches, epoch_seed: EpochSeed) -> None:
        self._batches = batches
        self._epoch_seed = epoch_seed
        self._keeper = getattr(batches.draw, "__self__", batches.draw)
        self._told = False
        self._draws = 0
        self._after: dict[str, Any] | None = None  # the state of the replica that draws for this one
        self._before: list[dict[str, Any]] = []  # the state before each draw that is not done with

    def begin(self, place: Place, split: Split, rank: int, group: Group | None) -> Reader:
        self.load_state_dict(self.state_dict())  # batches that were drawn ahead are drawn again
        if group is not None and group.world_size > 1:
            self._share_state(group)
        return Reader(slices(self._drawn(place, group), split, rank), endless=True)

    def state_dict(self) -> dict[str, Any]:
        return self._before[0] if self._before else self._state()

    def _state(self) -> dict[str, Any]:
        if self._after is not None:
            return self._after
        return {"draws": self._draws, "told": self._told, "own": script_random.capture(self._keeper)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._before, self._after = [], None
        if state:
            self._draws, self._told = int(state["draws"]), bool(state["told"])
            script_random.restore(self._keeper, state["own"])

    def _go_on_from(self, state: dict[str, Any]) -> None:
        """Go on by itself from where another replica has drawn."""
        script_random.restore(self._keeper, state["own"])
        self._after = None

    def have_workers(self, workers: int) -> bool:
        """Return False: batches are drawn in this process."""
        return False

    def done_with(self) -> None:
        self._before = self._before[1:]

    def _share_state(self, group: Group) -> None:
        """Let everyone go on from the state of the replica that drew most."""
        draws = group.gather_ints([self._draws])
        source = max(range(group.world_size), key=lambda rank: (draws[rank], -rank))
        state = broadcast_state(group, self.state_dict() if group.rank == source else None, source)
        if group.rank != source:
            self.load_state_dict(state)

    def _drawn(self, place: Place, group: Group | None) -> Iterator[Any]:
        seed = self._epoch_seed(place.epoch) + place.loop * LOOP_STRIDE
        for number in itertools.count(place.batch):
            # The first batch was drawn before there was a group, under the seed of each process.
            is_told = self._told or self._draws == 0
            self._before.append(self._state())
            if group is None or group.world_size == 1 or not is_told:
                yield self._draw(seed, number, place)
            elif group.rank == 0:
                batch = self._draw(seed, number, place)
                broadcast_state(group, {"batch": batch, "after": self._state()}, 0)
                yield batch
            else:
                told = broadcast_state(group, None, 0)
                self._after = state = told["after"]
                self._draws, self._told = state["draws"], state["told"]
                yield told["batch"]

    def _draw(self, seed: int, number: int, place: Place) -> Any:
        draw: Any = self._batches.draw
        if self._after is not None:
            self._go_on_from(self._after)
        before = {} if self._told else script_random.capture(self._keeper)
        ahead = self._batches.__dict__.pop("first", None)
        if ahead is not None and self._draws == 0 and place == Place(0, 0, 0, 0):
            batch = ahead
        else:
            with RandomState(draw_seed(seed, number)).borrowed(), seen_alone():
                batch = draw()
        self._draws += 1
        self._told = self._told or not script_random.alike(before, script_random.capture(self._keeper))
        return batch


class IterableSource:
    """Batches that an iterable gives. One replica takes them and tells the others.

    A process that comes in later passes by what is done. So does one that begins the same loop again.
    """

    fusable = False
    workers = 0

    def __init__(self, batches: Batches, epoch_seed: EpochSeed) -> None:
        self._batches = batches
        self._epoch_seed = epoch_seed
        draw, size = batches.draw, batches.given_size
        self.size: int | None = len(draw) if isinstance(draw, Sized) and size is not None else None
        self._key: list[int] = []  # epoch and loop of the loop whose begin is known
        self._begun: dict[str, Any] = {}  # what decides the order, when that loop began
        self._after: dict[str, Any] | None = None  # the state of the replica that takes batches for this one
        # Of an iterator, which gives each item once:
        self._once = batches.gives_once
        self._done = 0  # items that were trained on, by any process
        self._taken = 0  # items that this process has taken
        self._ahead: deque[Any] = deque()  # the last of them that are not done with

    def begin(self, place: Place, split: Split, rank: int, group: Group | None) -> Reader:
        here = [place.epoch, place.loop]
        if self._key != here:
            if self._after is not None:
                script_random.restore(self._batches.draw, self._after)
            self._key, self._begun, self._after = here, script_random.capture(self._batches.draw), None
        if group is not None and group.world_size > 1:
            self._begun = broadcast_state(group, {"begun": self._begun} if rank == 0 else None, 0)["begun"]
        return Reader(slices(self._told(place, group), split, rank))

    def state_dict(self) -> dict[str, Any]:
        after = script_random.capture(self._batches.draw) if self._after is None else self._after
        return {"key": self._key, "begun": self._begun, "after": after, "done": self._done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            self._key, self._begun = list(state["key"]), state["begun"]
            self._after, self._done = state["after"], int(state["done"])

    def have_workers(self, workers: int) -> bool:
        """Return False: batches are drawn in this process."""
        return False

    def done_with(self) -> None:
        self._done += 1
        while self._ahead and self._taken - len(self._ahead) < self._done:
            self._ahead.popleft()

    def _told(self, place: Place, group: Group | None) -> Iterator[Any]:
        if group is None or group.world_size == 1:
            yield from self._items(place)
            return
        if group.rank == 0:
            sent: dict[str, Any] | None = None
            for batch in self._items(place):
                now = script_random.capture(self._batches.draw)
                moved = {} if sent is not None and script_random.alike(now, sent) else {"after": now}
                broadcast_state(group, {"batches": [batch], **moved}, 0)
                sent = now
                yield batch
            broadcast_state(group, {"batches": [], "after": script_random.capture(self._batches.draw)}, 0)
            return
        while told := (rest := broadcast_state(group, None, 0))["batches"]:
            self._after = rest.get("after", self._after)
            yield told[0]
        self._after = rest["after"]

    def _items(self, place: Place) -> Iterator[Any]:
        own = RandomState(self._epoch_seed(place.epoch) + place.loop * LOOP_STRIDE)
        if self._once:
            yield from self._rest(own)
            return
        script_random.restore(self._batches.draw, self._begun)
        self._after = None
        with own.borrowed(), seen_alone():
            batches = self._batches.whole()
        for number in itertools.count():
            with own.borrowed(), seen_alone():
                batch = next(batches, _END)
            if batch is _END:
                return
            if number >= place.batch:
                yield batch

    def _rest(self, own: RandomState) -> Iterator[Any]:
        """Return what an iterator has left, from the first item on that is not done with."""
        yield from list(self._ahead)
        with own.borrowed(), seen_alone():
            batches = self._batches.whole()
        while True:
            with own.borrowed(), seen_alone():
                batch = next(batches, _END)
            if batch is _END:
                return
            self._taken += 1
            if self._taken > self._done:
                self._ahead.append(batch)
                yield batch
