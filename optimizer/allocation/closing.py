"""Closing what searches leave open of a gap, by prices of rows and what they leave to be looked at."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .opened import Open, Settled, narrowed, opened
from .packing import Tables, improve, most_tables, pack, sweep, tables_for
from .plan import objective
from .row_by_row import row_by_row
from .rows import NOTHING, Flags, Floats, Ints
from .search import Sought, is_within
from .whole import fill_rest

FAR = 1e-3  # from their bounds: what plans within it still lack is not worth much
_LENGTH = 0.1  # of the first step, of Polyak's
_NEAR = 0.5  # of what a plan may lack; bounds no further off come down by a few steps, others by a sweep first
# Steps towards better prices of rows, and beginnings of plans that are kept then.
_TURNS = (12, 32), (40, 128), (80, 512), (80, 1024), (80, 4096), (0, 16384)
# Of a turn, in cells of tables, which take less than a nanosecond each; an option of a beginning is worth some.
_MOST_WORK, _MOST_WORK_IF_NEAR, _WORK_OF_OPTION = 640_000_000, 20_000_000, 32


def bound_by_rows(sought: Sought, value: float, bound: float) -> float:
    """The bound after a few steps towards better prices of rows, where a plan worth `value` is at hand."""
    rest, (steps, width) = _open(sought, value, bound), _TURNS[0]
    if rest is not None and rest.work(steps, width) <= _MOST_WORK_IF_NEAR:
        rest.improve(value, steps)
    return bound if rest is None else rest.bound


def close(sought: Sought, picks: Ints, bound: float) -> tuple[float, float]:
    """(objective, bound) of a plan within the gap of its bound, or as near as is found; written to `picks`.

    Nothing is found where something takes of several limits at once, or parts of a unit, and where it would
    take too long.
    """
    value, gap = objective(sought.snapshot.rows, picks), sought.gap
    rest = _open(sought, value, bound)
    if rest is None:
        return value, bound
    for turn, (steps, width) in enumerate(_TURNS):
        if rest.holds_nothing or is_within(gap, value, rest.bound) or not sought.in_time:
            break
        most = _MOST_WORK_IF_NEAR if is_within(max(gap, FAR), value, rest.bound) else _MOST_WORK
        if rest.work(steps, width) > most:
            break
        if turn == 0 and not rest.is_near(value):
            rest.sweep()
        if steps and rest.length:
            rest.improve(value, steps)
            rest.sweep()
        if not rest.holds_nothing:
            found = _write(sought, *rest.search(width), picks, value)
            if found > value:
                value = found
                rest.ask_for_more(value, _enough(sought, value, rest.bound))
                if not is_within(gap, value, rest.bound):
                    rest.sweep()
    return value, max(rest.bound, value)


def _enough(sought: Sought, value: float, bound: float) -> float:
    """What plans are worth that are no more than the gap above this value: they need not be found."""
    return value + sought.gap * min(abs(value), abs(bound))


def _open(sought: Sought, value: float, bound: float) -> _Rest | None:
    """What may be part of a plan that is worth more than enough; None: prices of rows are of no use here."""
    snapshot, enough = sought.snapshot, _enough(sought, value, bound)
    given = snapshot.everything, snapshot.columns, snapshot.capacity, sought.prices
    # None of more worth holds a pick that loses more against its row's best.
    of_use, everything, price = opened(*given, sought.dual - enough)
    if not of_use:
        return None
    rest = _Rest(everything, price, enough, bound)
    rest.leave(np.ones(len(everything.pick), np.bool_), everything.must)
    return rest


def _write(sought: Sought, row: Ints, pick: Ints, picks: Ints, value: float) -> float:
    """These picks of rows, and what else fits, are written if they are worth more; what `picks` are worth then."""
    found = np.full_like(picks, NOTHING)
    found[row] = pick
    fill_rest(sought.snapshot, sought.near, sought.prices, found)
    worth = objective(sought.snapshot.rows, found)
    if worth > value:
        picks[:] = found
    return max(worth, value)


@dataclass
class _Rest:
    """What may be part of a plan that is worth more than enough, prices of its rows, and what is settled beside.

    bound: of all plans, also of those that are not looked for as they are worth no more than enough; length: of
    the next step, 0: none gains; tables: at these prices, None: not made.
    """

    opened: Open
    price: Floats
    enough: float
    bound: float
    length: float = _LENGTH
    settled: list[Settled] = field(default_factory=list)
    tables: Tables | None = None

    @property
    def holds_nothing(self) -> bool:
        return self.bound <= self.enough

    @property
    def gain(self) -> float:
        return sum(each.gain for each in self.settled)

    def work(self, steps: int, width: int) -> int:
        """Of a turn; tables are made at least twice."""
        cells = most_tables(self.opened) * (int(self.opened.capacity.max()) + 1)
        return max(steps, 2) * cells + _WORK_OF_OPTION * width * len(self.opened.pick)

    def is_near(self, value: float) -> bool:
        """Whether the bound at the prices is so near that steps alone are likely to do."""
        return self._pack()[1] <= self.enough + _NEAR * (self.enough - value)

    def improve(self, value: float, steps: int) -> None:
        """Better prices by steps, for a plan worth `value`."""
        if self.holds_nothing:
            return
        gain, tables = self.gain, tables_for(self.opened) if self.tables is None else self.tables
        given = self.opened, self.price, tables, value - gain, self.enough - gain, self.length, steps
        bound, self.length = improve(*given)
        self.tables = None
        self._lower(bound + gain)

    def sweep(self) -> None:
        """Leave only what may be part of a plan that is worth more, at prices that are better by it."""
        if self.holds_nothing:
            return
        gain, tables = self.gain, self._pack()[0] if self.tables is None else self.tables
        bound, with_option, without_row = sweep(self.opened, self.price, tables)
        self._lower(bound + gain)
        self.leave(with_option > self.enough - gain, self.opened.must | (without_row <= self.enough - gain))

    def search(self, width: int) -> tuple[Ints, Ints]:
        """Rows and picks of the best plan that is found, or of what is settled."""
        gain, tables = self.gain, self._pack()[0] if self.tables is None else self.tables
        _, left_out, option = row_by_row(self.opened, self.price, tables, self.enough - gain, width)
        self._lower(left_out + gain)
        taken = option[option != NOTHING]
        rows = [each.row for each in self.settled] + [self.opened.row[self.opened.place[taken]]]
        picks = [each.pick for each in self.settled] + [self.opened.pick[taken]]
        return np.concatenate(rows), np.concatenate(picks)

    def ask_for_more(self, value: float, enough: float) -> None:
        """A plan worth `value` is at hand now."""
        self.bound, self.enough = max(self.bound, value), max(self.enough, enough)

    def leave(self, keep: Flags, must: Flags) -> None:
        """These options only, and that rows must pick something."""
        self.opened, is_left, settled = narrowed(self.opened._replace(must=must), keep)
        self.price, self.tables = self.price[is_left], None
        self.settled.append(settled)
        stuck = self.opened.must & (np.diff(self.opened.begin) == 0)
        if stuck.any() or (self.opened.capacity < 0).any():
            self._lower(-np.inf)

    def _lower(self, bound: float) -> None:
        self.bound = max(min(self.bound, bound), self.enough)

    def _pack(self) -> tuple[Tables, float]:
        """The tables at the prices, and the bound."""
        self.tables = tables_for(self.opened)
        bound = pack(self.opened, self.price, self.tables, np.empty(len(self.opened.row), np.int64))
        return self.tables, bound + self.gain
