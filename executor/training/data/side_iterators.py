"""What was taken of the iterators of a loader that the script did not give to `prepare`, and how far they are."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Key = tuple[int, int, int]  # the key of a batch: epoch, loop, number

STOPPED: Any = object()  # stands for the end of an iterator
TAG = "_coadapt_taken"


@dataclass(eq=False)
class Taken:
    """What was taken of one iterator.

    epoch, number: it was made before training, or as the `number`-th of an `epoch` outside of its loops.
    in_part, born: it was made in the body of a loop, when the batch `born` was given.
    lasting: a generator made it, which outlives the batch.
    watched: None until it is advanced in the body of a loop.
    drew_from: states of the loader's own generators before it was made.
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
        return not self.stopped and getattr(self.iterator(), TAG, None) is self


@dataclass(eq=False)
class Side:
    """One loader: what its iterators gave to the step in hand, and how much of that the running pass has `had`.

    made: its iterators that were made in the step's parts, and that passes have had as well.
    current: the one that the loop advanced last.
    lasting: one that was made in a part is used in others.
    of_epoch: those that were made outside of parts in `epoch`.
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
        """Forget what was had, which will not be asked for again."""
        del self.made[: self.had_made]
        self.given = [(taken, item) for taken, item in self.given[self.had :] if taken.alive]
        self.had = self.had_made = 0

    def leave_alone(self, iterator: Any) -> None:
        """Take an iterator that was made in a part for none of the loop's."""
        if iterator in self.made:
            self.had_made -= self.made.index(iterator) < self.had_made
            self.made.remove(iterator)

    def state(self, epoch: int) -> dict[str, Any]:
        """Return how far it is, in plain values. `taken`: of the current iterator; None where there is none.

        `generators`: states of the loader's own now, and before the current iterator and each other was made.
        """
        current, loader = self.current, self.loader() if self.loader is not None else None
        mine = self.of_epoch if self.epoch == epoch else []
        return {
            "name": self.name,
            "taken": None if current is None else self._taken(current),
            "generators": {
                "now": [generator.get_state() for generator in generators_of(loader)],
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
        """Return the batches that were taken of an iterator, and not had yet."""
        return sum(owner is one and item is not STOPPED for owner, item in self.given[self.had :])


def counterpart(taken: Taken, state: dict[str, Any]) -> str | int | None:
    """Return which of the others' iterators this one stands for, by their loader's state.

    "taken": the current one. A number: that of the running epoch. None: none, because it is new for the others,
    too.
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
    """Return how many batches the others have had of this one's counterpart, by their loader's state."""
    theirs = counterpart(taken, state)
    if theirs is None:
        return 0
    return int(state["taken"] if theirs == "taken" else state["of_epoch"][theirs])


def drawn_from(taken: Taken, state: dict[str, Any]) -> list[Tensor]:
    """Return the states of the loader's own generators when that iterator was made."""
    theirs, known = counterpart(taken, state), state["generators"]
    found: list[Tensor] = (
        known["now"] if theirs is None else known["taken"] if theirs == "taken" else known["of_epoch"][theirs]
    )
    return found


def take(taken: Taken, step: Callable[[], Any]) -> Any:
    try:
        item = step()
    except StopIteration:
        taken.stopped = True
        return STOPPED
    taken.count += 1
    return item


def given(item: Any) -> Any:
    if item is STOPPED:
        raise StopIteration
    return item


_sides: weakref.WeakKeyDictionary[Any, Side] = weakref.WeakKeyDictionary()


def side_of(loader: Any) -> Side:
    side = _sides.get(loader)
    if side is None:
        side = _sides[loader] = Side(weakref.ref(loader))
    return side


def generators_of(loader: Any) -> list[torch.Generator]:
    """Return the generators of a loader and of its samplers."""
    samplers = [getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)]
    holders = [loader, *samplers, *(getattr(sampler, "sampler", None) for sampler in samplers)]
    found = [getattr(holder, "generator", None) for holder in holders]
    return list({id(one): one for one in found if isinstance(one, torch.Generator)}.values())


def order_begins(loader: Any) -> list[Tensor]:
    """Return the states of its generators where an iterator that is made now draws its order."""
    states = [generator.get_state() for generator in generators_of(loader)]
    if loader.generator is not None and _persists(loader) and loader._iterator is None:
        seeded = torch.Generator()  # the workers' seed is drawn once, before the first order
        seeded.set_state(states[0])
        torch.empty((), dtype=torch.int64).random_(generator=seeded)
        states[0] = seeded.get_state()
    return states


def _persists(loader: Any) -> bool:
    return bool(loader.persistent_workers and loader.num_workers)


def draw_again(taken: Taken, states: list[Tensor]) -> None:
    """Make an iterator that gave nothing yet draw its order from generators in these states."""
    iterator, loader = taken.iterator(), taken.side.loader() if taken.side.loader is not None else None
    generators = generators_of(loader)
    if loader is None or iterator is None or not generators or len(generators) != len(states):
        return
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state.cpu())
    taken.drew_from = states
    if hasattr(iterator, "begin_again"):
        iterator.begin_again(loader)
        return
    if _persists(loader):
        iterator._reset(loader)
        return
    # The script holds the iterator itself. It becomes the new one, and the old one goes with what it had.
    other = loader._get_iterator()
    iterator.__dict__, other.__dict__ = other.__dict__, iterator.__dict__
    setattr(iterator, TAG, taken)
