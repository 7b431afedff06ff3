"""The prepared training loader: it is the script's own object, and its batches come from the session.

A loop sees what it would see alone: `len(loader)`, as many batches, and their numbers (`counted_loops`).
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator
from types import GeneratorType
from typing import Any, Protocol

from .drawn import Batches

# Marks the class of a loader whose batches come from a session.
_ELASTIC = "_coadapt_elastic"


_iterators: weakref.WeakSet[Iterator[Any]] = weakref.WeakSet()  # iterators that hand out batches


class Loop(Protocol):
    """Answers what a loader asks of the session about the running loop over the data."""

    def batches(self) -> Iterator[Any]: ...

    def batch_count(self) -> int:
        """Return the batches of a loop; raises TypeError where that is not known."""

    @property
    def samples_shared(self) -> int | None:
        """After a loop, the samples that this replica was given in it; None where these are all."""

    def note_counting(self, how: str) -> None:
        """Note that the script has counted its batches, and how."""


def plain_copy(loader: Any) -> Any:
    """Return the loader as it was given; what follows changes only the script's own object."""
    return copy.copy(loader)


def make_elastic(loader: Any, loop: Loop) -> None:
    """Let a script's loader hand out the session's batches. It keeps its class's name and its attributes."""
    kind = type(loader)

    def iterate(self: Any) -> Iterator[Any]:
        batches = loop.batches()
        _iterators.add(batches)
        return batches

    def length(self: Any) -> int:
        loop.note_counting("len(loader)")
        return loop.batch_count()

    members: dict[str, Any] = {
        "__iter__": iterate,
        "__len__": length,
        "__module__": kind.__module__,
        _ELASTIC: True,
    }
    if not isinstance(loader, Batches):
        for name in ("dataset", "sampler"):
            members[name] = property(_share_of(name, loop))
    loader.__class__ = type(kind.__name__, (kind,), members)


def feeds(thing: Any) -> bool:
    """Return whether a thing is such a loader."""
    return hasattr(type(thing), _ELASTIC)


def hands_out(thing: Any) -> bool:
    """Return whether a thing is an iterator of such a loader."""
    return isinstance(thing, GeneratorType) and thing in _iterators


def _share_of(name: str, loop: Loop) -> Any:
    def get(self: Any) -> Any:
        real, shared = self.__dict__[name], loop.samples_shared
        return real if shared is None or not hasattr(real, "__len__") else _Share(real, shared)

    return get


class _Share:
    """A data set or sampler that is as long as this replica's share of it.

    Scripts divide sums over their samples by `len(loader.dataset)` after a loop.
    """

    def __init__(self, real: Any, count: int) -> None:
        self.__dict__.update(_real=real, _count=count)

    @property  # type: ignore[misc]  # so that isinstance sees the real class
    def __class__(self) -> Any:
        return type(self._real)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        return self._real[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)
