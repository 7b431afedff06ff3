"""Jobs by what they share, such as their user: sums and middles of groups without a loop over jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..traces.tables import Floats
from ..traces.workload import Ints


@dataclass(frozen=True, eq=False)
class Groups:
    """`names` of the groups, sorted, and `of` (jobs,) the group of each job; -1: the trace names none."""

    names: tuple[str, ...]
    of: Ints

    @classmethod
    def by_name(cls, texts: Sequence[str]) -> Groups:
        """Return the groups of jobs with one text; jobs with an empty text are in none."""
        found, of = np.unique(np.array(texts, dtype=np.str_), return_inverse=True)
        nameless = int(len(found) > 0 and found[0] == "")
        return cls(tuple(found[nameless:].tolist()), of.astype(np.int64) - nameless)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def named(self) -> bool:
        """Whether every job is in a group."""
        return bool(len(self.of)) and bool((self.of >= 0).all())

    def jobs(self) -> Ints:
        """Return (groups,) the number of jobs."""
        return np.bincount(self.of[self.of >= 0], minlength=len(self))

    def sums(self, values: Floats) -> Floats:
        """Return (groups,) the sums of what is known of the values (jobs,)."""
        some = (self.of >= 0) & np.isfinite(values)
        return np.bincount(self.of[some], weights=values[some], minlength=len(self)).astype(float)

    def means(self, values: Floats) -> Floats:
        """Return (groups,) the means of what is known of the values (jobs,); nan: nothing is."""
        some = (self.of >= 0) & np.isfinite(values)
        counts = np.bincount(self.of[some], minlength=len(self))
        return np.where(counts > 0, self.sums(values) / np.maximum(counts, 1), np.nan)

    def medians(self, values: Floats) -> Floats:
        """Return (groups,) the medians of what is known of the values (jobs,); nan: nothing is."""
        some = (self.of >= 0) & np.isfinite(values)
        of, values = self.of[some], values[some]
        if not len(of):
            return np.full(len(self), np.nan)
        sorted_values = values[np.lexsort((values, of))]
        counts = np.bincount(of, minlength=len(self))
        first = np.cumsum(counts) - counts
        last = len(of) - 1  # an empty group looks anywhere, and is struck out below
        low, high = first + (counts - 1) // 2, first + counts // 2
        middle = (sorted_values[np.clip(low, 0, last)] + sorted_values[np.clip(high, 0, last)]) / 2
        return np.where(counts > 0, middle, np.nan)
