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
from .whole import fill_up

_LENGTH = 0.03  # of the first step, of Polyak's
# Steps towards better prices of rows, and beginnings of plans that are kept then.
_TURNS = (20, 64), (40, 256), (80, 512), (80, 1024), (80, 4096), (0, 16384)
_MOST_CELLS = 8_000_000  # of the tables
# Plans within so little of their bounds are worth a few turns, and only smaller tables.
_FAR, _FEW_TURNS, _FEW_CELLS = 1e-3, 2, 1_000_000


def close(sought: Sought, picks: Ints, bound: float) -> tuple[float, float]:
    """(objective, bound) of a plan within the gap of its bound, or as near as is found; written to `picks`.

    Both are as they were where something takes of several limits at once, or parts of a unit.
    """
    value, gap = objective(sought.snapshot.rows, picks), sought.gap
    least = value + gap * min(abs(value), abs(bound))  # plans that are worth no more need not be found
    # None of more worth holds a pick that loses more against its row's best.
    found = opened(sought.snapshot, sought.prices, sought.dual - least)
    if found is None:
        return value, bound
    rest, length, turn = _Rest(*found), _LENGTH, 0
    rest.leave(np.ones(len(rest.opened.pick), np.bool_), rest.opened.must)
    while not rest.holds_nothing:
        is_near = is_within(max(gap, _FAR), value, bound)
        turns, cells = (_FEW_TURNS, _FEW_CELLS) if is_near else (len(_TURNS), _MOST_CELLS)
        is_enough = is_within(gap, value, bound) or turn >= turns or rest.cells > cells
        if is_enough or not sought.in_time:
            return value, bound
        (steps, width), turn = _TURNS[turn], turn + 1
        if steps and length:
            reached, length = rest.improve(value, least, length, steps)
            bound = max(min(bound, reached), value)
            rest.leave_above(least)
        if not rest.holds_nothing:
            left_out, plan = rest.search(least, width)
            bound = max(min(bound, left_out), least)
            before, value = value, _write(sought, plan, picks, value)
            bound = max(bound, value)
            least = value + gap * min(abs(value), abs(bound))
            if value > before:
                rest.leave_above(least)
    return value, max(min(bound, least), value)


def _write(sought: Sought, plan: Settled, picks: Ints, value: float) -> float:
    """The plan is written to `picks` if it is worth more than `value`; what `picks` are worth then."""
    found = np.full_like(picks, NOTHING)
    found[plan.row] = plan.pick
    fill_up(sought.snapshot, sought.near, sought.prices, found, sought.snapshot.room(found))
    worth = objective(sought.snapshot.rows, found)
    if worth > value:
        picks[:] = found
    return max(worth, value)


@dataclass
class _Rest:
    """What is open, prices of its rows, and what is settled beside it."""

    opened: Open
    worth: Floats
    settled: list[Settled] = field(default_factory=list)

    @property
    def gain(self) -> float:
        return sum(each.gain for each in self.settled)

    @property
    def cells(self) -> int:
        """Of the tables."""
        return most_tables(self.opened) * (int(self.opened.capacity.max()) + 1)

    @property
    def holds_nothing(self) -> bool:
        """No plan at all."""
        stuck = self.opened.must & (np.diff(self.opened.begin) == 0)
        return bool((self.opened.capacity < 0).any() or stuck.any())

    def improve(self, value: float, least: float, length: float, steps: int) -> tuple[float, float]:
        """Better prices; (the bound at them, length of the next step, 0: none gains)."""
        gain = self.gain
        given = self.opened, self.worth, tables_for(self.opened), value - gain, least - gain, length, steps
        bound, length = improve(*given)
        return bound + gain, length

    def leave(self, keep: Flags, must: Flags) -> None:
        """These options only, and that rows must pick something."""
        self.opened, is_left, settled = narrowed(self.opened._replace(must=must), keep)
        self.worth = self.worth[is_left]
        self.settled.append(settled)

    def leave_above(self, least: float) -> None:
        """Only what may be part of a plan that is worth more."""
        if self.holds_nothing:
            return
        tables, least = tables_for(self.opened), least - self.gain
        pack(self.opened, self.worth, tables, np.empty(len(self.opened.row), np.int64))
        with_option, without_row = through(self.opened, self.worth, tables)
        self.leave(with_option > least, self.opened.must | (without_row <= least))

    def search(self, least: float, width: int) -> tuple[float, Settled]:
        """(bound of what was left out for its number alone, the best plan found or what is settled of one)."""
        opened, gain = self.opened, self.gain
        tables = tables_for(opened)
        pack(opened, self.worth, tables, np.empty(len(opened.row), np.int64))
        found, left_out, option = row_by_row(opened, self.worth, tables, least - gain, width)
        plan = list(self.settled)
        if len(option):
            served = option != NOTHING
            plan.append(Settled(opened.row[served], opened.pick[option[served]], found))
        rows, picks = np.concatenate([each.row for each in plan]), np.concatenate([each.pick for each in plan])
        return left_out + gain, Settled(rows, picks, found + gain)
