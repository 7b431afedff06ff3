"""A mapping whose values are computed only for the job that someone asks about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

V = TypeVar("V")


class LazyMapping(Mapping[str, V]):
    """A mapping of ids to values, each computed whenever it is read. Making the mapping costs nothing.

    The rows of a plan over 100,000 jobs and 3,000 configurations would take 2.4 GB, and people read only a few.

    Args:
        ids: each once, in the order of iteration.
        value: returns the value of the id at a position in `ids`. It may be called long after the round, so it
            reads nothing that a later round changes. It must not raise KeyError, which `get` would take for an
            unknown id.
    """

    def __init__(self, ids: Sequence[str], value: Callable[[int], V]) -> None:
        self._ids, self._value = ids, value

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {id: i for i, id in enumerate(self._ids)}

    def __getitem__(self, id: str) -> V:
        return self._value(self._positions[id])

    def __contains__(self, id: object) -> bool:
        return id in self._positions

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)
