"""The jobs of a round. The view of a job is made when a policy asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from ...policies.contract.round import JobColumns, JobView


class Views(Sequence[JobView]):
    """One view per job of `columns`. `make` returns the view at a position, which is then kept."""

    def __init__(self, columns: JobColumns, make: Callable[[int], JobView]) -> None:
        self.columns, self._make = columns, make
        self._made: dict[int, JobView] = {}

    def __len__(self) -> int:
        return len(self.columns.ids)

    @overload
    def __getitem__(self, index: int) -> JobView: ...
    @overload
    def __getitem__(self, index: slice) -> list[JobView]: ...
    def __getitem__(self, index: int | slice) -> JobView | list[JobView]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        found = self._made.get(index)
        if found is None:
            if not -len(self) <= index < len(self):
                raise IndexError(f"job: {index} of {len(self)}")
            if index < 0:
                return self[index + len(self)]
            found = self._made[index] = self._make(index)
        return found

    def __iter__(self) -> Iterator[JobView]:
        return (self[i] for i in range(len(self)))
