"""Sees what is taken of torch's loaders, of torchdata's, and of `itertools.cycle` over one."""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from .side_iterators import TAG, Side, Taken, given, order_begins, side_of, take
from .side_loaders import SideLoaders, is_for_us

_watching: SideLoaders | None = None
_inside = False
_seen: set[type] = set()  # loaders' classes that are watched


def watch(sides: SideLoaders | None) -> None:
    """Let `sides` know what this process takes of loaders, torchdata's included where it uses that."""
    global _watching
    _watching = sides
    install()
    torchdata = sys.modules.get("torchdata.stateful_dataloader.stateful_dataloader")
    if torchdata is not None:
        _install_in(torchdata.StatefulDataLoader, torchdata._StatefulBaseDataLoaderIter)


def install() -> None:
    """Watch what is taken of loaders. A managed process calls this before its script imports anything."""
    _install_in(DataLoader, _BaseDataLoaderIter)
    _replace_cycle()


def _replace_cycle() -> None:
    """Keep `itertools.cycle` a class, of which a loader makes a `Cycle`."""
    real: type[Any] = itertools.cycle
    if real.__module__ == __name__:
        return

    def __new__(cls: type, iterable: Any) -> Any:
        loader = isinstance(iterable, DataLoader) and type(iterable).__iter__ is DataLoader.__iter__
        return Cycle(iterable) if loader else real(iterable)

    vars(itertools)["cycle"] = type("cycle", (real,), {"__doc__": real.__doc__, "__new__": __new__})


def _install_in(loader: Any, iterator: Any) -> None:
    if loader in _seen:
        return
    _seen.add(loader)
    make, step = vars(loader)["__iter__"], vars(iterator)["__next__"]

    def __iter__(self: Any) -> Any:
        if _inside or is_for_us(sys._getframe(1)):
            return make(self)
        if _watching is not None and (found := _watching.made_before(self)) is not None:
            return found
        drew_from = order_begins(self)
        made = make(self)
        _tag(made, side_of(self), drew_from)
        return made

    def __next__(self: Any) -> Any:
        if _watching is None or _inside:
            taken = vars(self).get(TAG)
            return step(self) if taken is None or _inside else given(take(taken, lambda: step(self)))
        return _advance(self, lambda: step(self))

    loader.__iter__, iterator.__next__ = __iter__, __next__


def _tag(iterator: Any, side: Side, drew_from: list[Tensor]) -> Taken:
    taken = Taken(side, weakref.ref(iterator), drew_from)
    setattr(iterator, TAG, taken)
    if _watching is not None:
        _watching.made(taken, iterator)
    return taken


def _advance(iterator: Any, step: Callable[[], Any]) -> Any:
    """Ask the watcher for the next item. What `step` asks of other iterators meanwhile is not watched."""

    def inside() -> Any:
        global _inside
        _inside = True
        try:
            return step()
        finally:
            _inside = False

    taken = vars(iterator).get(TAG)
    if taken is None:
        if is_for_us(sys._getframe(2)):
            return step()
        taken = Taken(Side(), weakref.ref(iterator))
        setattr(iterator, TAG, taken)
    assert _watching is not None
    return _watching.advance(taken, inside)


class Cycle:
    """`itertools.cycle` of a loader: it keeps the batches, and gives the same ones again and again."""

    def __init__(self, loader: Any) -> None:
        self._items: Iterator[Any] | None = None
        self._kept: list[Any] = []
        self._next = 0
        drew_from = order_begins(loader)
        self.begin_again(loader)
        _tag(self, side_of(loader), drew_from)

    def begin_again(self, loader: Any) -> None:
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
