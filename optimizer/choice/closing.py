"""Closing what searches leave open of a gap, by prices of rows and what they leave to be looked at."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .opened import Open, Settled, narrowed, opened
from .packing import improve, most_tables, pack, tables_for, through
from .plan import objective
from .row_by_row import row_by_row
from .rows import NOTHING, Flags, Floats, Ints
from .search import Sought, is_within
from .whole import fill_rest

FAR = 1e-3  # from their bounds: what plans within it still lack is not worth much
_LENGTH = 0.03  # of the first step, of Polyak's
# Steps towards better prices of rows, and beginnings of plans that are kept then.
_TURNS = (20, 64), (40, 256), (80, 512), (80, 1024), (80, 4096), (0, 16384)
# Of a turn, in cells of tables, which take less than a nanosecond each; an option of a beginning is worth some.
_MOST_WORK, _MOST_WORK_IF_NEAR, _WORK_OF_OPTION = 640_000_000, 20_000_000, 32


def close(sought: Sought, picks: Ints, bound: float) -> tuple[float, float]:
    """(objective, bound) of a plan within the gap of its bound, or as near as is found; written to `picks`.

    Nothing is found where something takes of several limits at once, or parts of a unit, and where it would
    take too long.
    """
    value, gap = objective(sought.snapshot.rows, picks), sought.gap
    enough = value + gap * min(abs(value), abs(bound))  # plans that are worth no more need not be found
    # None of more worth holds a pick that loses more against its row's best.
    found = opened(sought.snapshot, sought.prices, sought.dual - enough)
    if found is None:
        return value, bound
    rest, length, turn = _Rest(*found), _LENGTH, 0
    rest.leave(np.ones(len(rest.opened.pick), np.bool_), rest.opened.must)
    while not rest.holds_nothing:
        is_near = is_within(max(gap, FAR), value, bound)
        if is_within(gap, value, bound) or turn == len(_TURNS) or not sought.in_time:
            return value, bound
        (steps, width), turn = _TURNS[turn], turn + 1
        if rest.work(steps, width) > (_MOST_WORK_IF_NEAR if is_near else _MOST_WORK):
            return value, bound
        if steps and length:
            reached, length = rest.improve(value, enough, length, steps)
            bound = max(min(bound, reached), enough)  # of what is left out it says nothing
            rest.leave_above(enough)
        if not rest.holds_nothing:
            left_out, row, pick = rest.search(enough, width)
            bound = max(min(bound, left_out), enough)
            before, value = value, _write(sought, row, pick, picks, value)
            bound = max(bound, value)
            if value > before:
                enough = max(enough, value + gap * min(abs(value), abs(bound)))
                rest.leave_above(enough)
    return value, max(min(bound, enough), value)


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
    """What is open, prices of its rows, and what is settled beside it."""

    opened: Open
    price: Floats
    settled: list[Settled] = field(default_factory=list)

    @property
    def gain(self) -> float:
        return sum(each.gain for each in self.settled)

    @property
    def holds_nothing(self) -> bool:
        """No plan that is worth more than enough."""
        stuck = self.opened.must & (np.diff(self.opened.begin) == 0)
        return bool((self.opened.capacity < 0).any() or stuck.any())

    def work(self, steps: int, width: int) -> int:
        """Of a turn; tables are made at least twice."""
        cells = most_tables(self.opened) * (int(self.opened.capacity.max()) + 1)
        return max(steps, 2) * cells + _WORK_OF_OPTION * width * len(self.opened.pick)

    def improve(self, value: float, enough: float, length: float, steps: int) -> tuple[float, float]:
        """Better prices; (the bound at them, length of the next step, 0: none gains)."""
        gain = self.gain
        given = self.opened, self.price, tables_for(self.opened), value - gain, enough - gain, length, steps
        bound, length = improve(*given)
        return bound + gain, length

    def leave(self, keep: Flags, must: Flags) -> None:
        """These options only, and that rows must pick something."""
        self.opened, is_left, settled = narrowed(self.opened._replace(must=must), keep)
        self.price = self.price[is_left]
        self.settled.append(settled)

    def leave_above(self, enough: float) -> None:
        """Only what may be part of a plan that is worth more."""
        if self.holds_nothing:
            return
        tables, enough = tables_for(self.opened), enough - self.gain
        pack(self.opened, self.price, tables, np.empty(len(self.opened.row), np.int64))
        with_option, without_row = through(self.opened, self.price, tables)
        self.leave(with_option > enough, self.opened.must | (without_row <= enough))

    def search(self, enough: float, width: int) -> tuple[float, Ints, Ints]:
        """(bound of what was left out for its number alone, rows and picks of the best plan or of the settled)."""
        tables = tables_for(self.opened)
        pack(self.opened, self.price, tables, np.empty(len(self.opened.row), np.int64))
        _, left_out, option = row_by_row(self.opened, self.price, tables, enough - self.gain, width)
        taken = option[option != NOTHING]
        rows = [each.row for each in self.settled] + [self.opened.row[self.opened.place[taken]]]
        picks = [each.pick for each in self.settled] + [self.opened.pick[taken]]
        return left_out + self.gain, np.concatenate(rows), np.concatenate(picks)
