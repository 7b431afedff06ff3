"""What a plan can say of each of its jobs, computed for the job that someone asks about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np


class LazyRows(Mapping[str, np.ndarray]):
    """job id -> (configurations,) row, computed anew each time it is read; making the mapping costs nothing.

    A plan over 100,000 jobs and 3,000 configurations has rows of 2.4 GB, and a person reads a few of them.

    Args:
        ids: the plan's jobs, each once.
        row: the row of the job at a position in `ids`. It may be called long after the round, so it holds on to
            what it reads, and reads nothing that a later round changes.
    """

    def __init__(self, ids: Sequence[str], row: Callable[[int], np.ndarray]) -> None:
        self._ids, self._row = ids, row

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {id: i for i, id in enumerate(self._ids)}

    def __getitem__(self, job_id: str) -> np.ndarray:
        return self._row(self._positions[job_id])

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._positions

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)
