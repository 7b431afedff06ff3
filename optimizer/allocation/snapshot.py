"""A program at the moment of a solve: flat arrays that all steps of the solver read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .box import UNKNOWN, Known, Program
from .listing import Entries, list_options
from .options import NOTHING, STAY, Floats, Ints, columns_of, count_options, dual_value
from .problem import TOLERANCE


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A program, and what the last solve left of its rows.

    Picks are by row, as the rows' arrays are. They are NOTHING for rows that are not in the order.

    program: rows with their concave envelopes, in groups in which only these matter.
    everything: rows with all options. Both share their arrays.
    usage: (kinds, limits, columns), counted in the program's units.
    kind: the kind of each row, by row.
    known: states of rows near the last prices (`box.py`), which solvers write.
    """

    program: Program
    everything: Program
    usage: Floats
    kind: Ints
    known: Known

    @property
    def order(self) -> Ints:
        return self.program.rows.order

    @property
    def options(self) -> int:
        """How many options all rows have together."""
        return count_options(self.everything.rows)

    def gain_per_row(self) -> float:
        """Return the average absolute gain of a row if all rows had their best options."""
        free = np.zeros(len(self.program.capacity))
        return float(dual_value(*self.program, free)[1]) / max(len(self.order), 1)

    def no_picks(self) -> Ints:
        return np.full(len(self.program.rows.required), NOTHING, np.int64)

    def columns_of(self, picks: Ints) -> Ints:
        """Return (rows,) the columns that are picked, -1 for none."""
        columns = columns_of(self.program.rows, picks)
        return np.where(columns < 0, -1, columns % max(self.usage.shape[2], 1))

    def without_requirements(self, places: Sequence[int]) -> Snapshot:
        """Return a program without requirements for the rows at these places. Required rows' states are reset."""
        rows = self.program.rows
        required = rows.required.copy()
        required[self.order[list(places)]] = False
        self.known.state[self.order[rows.required[self.order]]] = UNKNOWN
        return replace(
            self,
            program=self.program._replace(rows=rows._replace(required=required)),
            everything=self.everything._replace(rows=self.everything.rows._replace(required=required)),
        )

    def entries(self) -> Entries:
        """Return all options of the rows in the order."""
        rows = self.everything.rows
        if not len(rows.concave):
            return Entries(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        begin, end = rows.begin[rows.order, 0], rows.end[rows.order, -1]
        most = int((end - begin).sum()) + len(rows.order)
        row, column, gain = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
        arrays = rows.offset, rows.scale, rows.stay_column, rows.stay_gain, rows.column, rows.value
        barred = self.program.columns.barred
        count = list_options(rows.order, begin, end, *arrays, barred, self.usage.shape[2], row, column, gain)
        return Entries(row[:count], column[:count], gain[:count])

    def picks_of(self, choice: Ints) -> Ints:
        """Return picks by row, from columns (rows,), -1 for none.

        Each column must be an option of its row. If the row may also stay there, the better pick counts.
        """
        rows, picks = self.everything.rows, self.no_picks()
        for i in np.flatnonzero(choice >= 0).tolist():
            row = rows.order[i]
            begin, end = int(rows.begin[row, 0]), int(rows.end[row, -1])
            columns = self.usage.shape[2]
            where = np.flatnonzero(rows.column[begin:end] % columns == choice[i])
            stays = rows.stay_column[row] >= 0 and rows.stay_column[row] % columns == choice[i]
            if len(where):
                picks[row] = begin + where[0]
                gain = rows.offset[row] + rows.scale[row] * rows.value[picks[row]]
                stays = stays and rows.stay_gain[row] > gain
            if stays:
                picks[row] = STAY
        return picks


@dataclass(frozen=True, eq=False)
class Found:
    """A plan and what is proven of it: objective <= optimum <= bound.

    picks: by row.
    prices: (limits,), at which the bound holds.
    passes, pivots: passes over the rows to find prices, and pivots of the simplex method.
    """

    picks: Ints
    objective: float
    bound: float
    prices: Floats
    passes: int
    pivots: int

    def is_within(self, gap: float) -> bool:
        """Return whether the relative gap is proven to be at most `gap`."""
        smaller = min(abs(self.bound), abs(self.objective))
        return self.bound - self.objective <= gap * smaller + TOLERANCE
