"""A choice program as it is when it is solved: flat arrays, read by everything that solves it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .plan import take
from .rows import NOTHING, STAY, Columns, Floats, Ints, Rows, count_options, total_best


@dataclass(frozen=True, eq=False)
class Snapshot:
    """rows: with the envelopes where they are all that matters; everything: with all options.

    Both have the same rows and pools. usage: (limits, columns); capacity: (limits,). Picks are by row, as the
    arrays of `rows` are; of rows that are not in `rows.order` they are NOTHING. The last four are the program's,
    written by who solves it, by row: what is known of it near the last prices, its pick there (`near.py`), its
    pick at the last vertex, and in the last plan.
    """

    rows: Rows
    everything: Rows
    columns: Columns
    usage: Floats
    capacity: Floats
    state: NDArray[np.int8]
    settled: Ints
    key: Ints
    plan: Ints

    @property
    def frame(self) -> tuple[Rows, Columns, Floats]:
        """As kernels take what the program is."""
        return self.rows, self.columns, self.capacity

    @property
    def known(self) -> tuple[NDArray[np.int8], Ints]:
        """As kernels take what is known of rows near the last prices."""
        return self.state, self.settled

    @property
    def options(self) -> int:
        """Of all rows together."""
        return count_options(self.everything)

    @property
    def cells(self) -> int:
        """Of what `dense` makes of all rows."""
        return len(self.rows.order) * self.usage.shape[1]

    def worth_of_a_row(self) -> float:
        """What one would gain on average if all had their best; what required ones lose by that counts as well."""
        return float(total_best(self.rows, self.columns)) / max(len(self.rows.order), 1)

    def no_picks(self) -> Ints:
        return np.full(len(self.rows.required), NOTHING, np.int64)

    def room(self, picks: Ints) -> Floats:
        """(limits,) what the picks leave of the capacity."""
        room = self.capacity.copy()
        take(self.rows, self.columns, picks, room)
        return room

    def dense(self, rows: Ints) -> tuple[Floats, Ints]:
        """(rows, columns) gain and pick of what each row may pick, NOTHING where it may not."""
        of = self.everything
        shape = (len(rows), self.usage.shape[1])
        gain, pick = np.zeros(shape), np.full(shape, NOTHING, np.int64)
        for i, row in enumerate(rows if shape[1] else ()):
            begin, end = of.begin[row, 0], of.end[row, -1]
            columns = of.column[begin:end]
            gain[i, columns] = of.offset[row] + of.scale[row] * of.value[begin:end]
            pick[i, columns] = np.arange(begin, end)
            stay = of.stay_column[row]
            if stay >= 0 and (pick[i, stay] == NOTHING or gain[i, stay] < of.stay_gain[row]):
                gain[i, stay], pick[i, stay] = of.stay_gain[row], STAY
        return gain, pick


@dataclass(frozen=True, eq=False)
class Found:
    """picks: by row; left: (limits,) of the capacity by them; objective <= optimum <= bound; prices: (limits,).

    And how many passes over the rows were made, and pivots.
    """

    picks: Ints
    left: Floats
    objective: float
    bound: float
    prices: Floats
    passes: int
    pivots: int
