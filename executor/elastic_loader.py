"""The prepared training loader: the script's own object, whose batches come from the session.

A loop sees what it would see alone: `len(loader)`, the numbers of `enumerate(loader)`, as many batches. Where a
batch takes several passes, all but the last have numbers that equal nothing (`Undue`), so that what a script does
at every n-th batch is done once.
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import Iterator
from typing import Any, Protocol

from .drawn import Batches
from .undue import Late

# What is enumerated all the time, and never is training batches.
_COMMON = frozenset(
    {list, tuple, dict, str, set, range, zip, map, type({}.items()), type({}.keys()), type({}.values())}
)
# Marks the class of a loader whose batches come from a session.
_ELASTIC = "_coadapt_elastic"


class Loop(Protocol):
    """What the session says of the running loop over the data."""

    def batches(self) -> Iterator[Any]: ...

    def batch_count(self) -> int:
        """Batches of a loop; raises TypeError where that is not known."""

    @property
    def batch_number(self) -> int:
        """The number of the batch that was handed out last, from 0 in each loop."""

    @property
    def partial(self) -> bool:
        """Whether the running pass is one before the last of its batch."""

    @property
    def trained(self) -> bool:
        """Whether there was a backward in the running pass."""

    @property
    def samples_shared(self) -> int | None:
        """After a loop, the samples that this replica was given in it; None where these are all."""

    def note_counting(self, how: str) -> None:
        """The script has counted its batches: by `how`."""


def plain_copy(loader: Any) -> Any:
    """The loader as it was given; what follows changes only the script's own object."""
    return copy.copy(loader)


def make_elastic(loader: Any, loop: Loop) -> None:
    """Let a script's loader hand out the session's batches; its class and attributes stay."""
    kind = type(loader)

    def iterate(self: Any) -> Iterator[Any]:
        return loop.batches()

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


def _share_of(name: str, loop: Loop) -> Any:
    def get(self: Any) -> Any:
        real, shared = self.__dict__[name], loop.samples_shared
        return real if shared is None or not hasattr(real, "__len__") else _Share(real, shared)

    return get


class _Share:
    """A data set or sampler, as long as this replica's share of it.

    Scripts divide sums over their samples by `len(loader.dataset)` after a loop.
    """

    def __init__(self, real: Any, count: int) -> None:
        self.__dict__.update(_real=real, _count=count)

    @property  # type: ignore[misc]
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


class _Numbered:
    """`enumerate` over the training batches: the script's batch numbers, wherever this process came in."""

    def __init__(self, items: Iterator[Any], start: int, loop: Loop) -> None:
        self._items, self._start, self._loop = items, start, loop

    def __iter__(self) -> _Numbered:
        return self

    def __next__(self) -> tuple[int, Any]:
        item = next(self._items)
        loop = self._loop  # a number must not keep its loop from ending
        number = self._start + loop.batch_number
        return (Late(number, lambda: loop.trained) if loop.partial else number), item


def number_batches(loop: Loop) -> None:
    """Replace `enumerate` by one that numbers training batches as the script would by itself.

    Called once, in a managed process. Whatever else is enumerated is as before.
    """
    real = builtins.enumerate
    if hasattr(real, "_coadapt"):
        real._coadapt = loop
        return

    class enumerate(real):  # type: ignore[misc, valid-type]
        __doc__ = real.__doc__
        _coadapt: Loop = loop

        def __new__(cls, iterable: Any, start: int = 0) -> Any:
            if type(iterable) in _COMMON or not _feeds(iterable):
                return real(iterable, start)
            cls._coadapt.note_counting("enumerate(loader)")
            return _Numbered(iter(iterable), start, cls._coadapt)

    builtins.enumerate = enumerate  # type: ignore[misc]


def _feeds(iterable: Any) -> bool:
    """Whether these are training batches, as they are or inside of a progress bar such as tqdm's."""
    return hasattr(type(iterable), _ELASTIC) or hasattr(type(getattr(iterable, "iterable", None)), _ELASTIC)
