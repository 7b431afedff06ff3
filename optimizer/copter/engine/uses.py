"""What requests use of resources, and which requests use one."""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...compiled import kernel
from .inputs import Triplets

FEW = 64  # users of a resource above which those that have left are sought


@dataclass(frozen=True, eq=False)
class Uses:
    """Entries of requests' variables. Those of resources[k] lie from begin[k] to begin[k + 1]."""

    resources: Sequence[str]
    begin: np.ndarray
    index: np.ndarray
    value: np.ndarray

    @classmethod
    def of(cls, resources: Sequence[str], parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Uses:
        """Make the uses from parts (indices, values), one for each resource."""
        begin = np.zeros(len(parts) + 1, dtype=np.int64)
        if not parts:
            return cls(resources, begin, np.zeros(0, dtype=np.int64), np.zeros(0))
        np.cumsum([len(index) for index, _ in parts], out=begin[1:])
        index, value = (np.concatenate([part[i] for part in parts]) for i in range(2))
        return cls(resources, begin, index, value)

    def entries(self, rows: Sequence[int]) -> Triplets:
        """Return the entries, with `rows` as the row of each resource."""
        return self.index, np.repeat(np.array(rows, dtype=np.int64), np.diff(self.begin)), self.value

    def users(self, ids: Sequence[Hashable], sizes: np.ndarray) -> list[list[Hashable]]:
        """Return the requests that use each resource, some more than once. `sizes` count their variables."""
        begin, owner = _owners(self.begin, self.index, np.repeat(np.arange(len(sizes)), sizes))
        named, ends = [ids[i] for i in owner.tolist()], begin.tolist()
        return [named[a:b] for a, b in pairwise(ends)]


@kernel
def _owners(begin: np.ndarray, index: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (begin, owner) of each part's entries. Neighbouring entries of the same owner make one."""
    ends, out, place = np.zeros(len(begin), np.int64), np.empty(len(index), np.int64), 0
    for part in range(len(begin) - 1):
        for k in range(begin[part], begin[part + 1]):
            this = owner[index[k]]
            if place == ends[part] or out[place - 1] != this:
                out[place] = this
                place += 1
        ends[part + 1] = place
    return ends, out[:place]


class Users:
    """Requests that use a resource, and some that did. Those that have left are dropped once they may be most."""

    def __init__(self) -> None:
        self._ids: set[Hashable] = set()
        self._most = FEW

    def add(self, ids: Sequence[Hashable], live: Container[Hashable]) -> None:
        self._ids.update(ids)
        if len(self._ids) > self._most:
            self.among(live)

    def among(self, live: Container[Hashable]) -> set[Hashable]:
        """Return the requests that are still there."""
        self._ids = {id for id in self._ids if id in live}
        self._most = FEW + 2 * len(self._ids)
        return self._ids
