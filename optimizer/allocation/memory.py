"""What one solve of a program leaves for the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .box import NO_BOX, Box, Known, Near, Program, near_around
from .options import Floats
from .problem import TOLERANCE

# Prices are expected to move this many times as far as at the last solve, within these limits.
_AHEAD, _LEAST_REACH, _MOST_REACH = 2.0, 0.02, 0.15
_SHARE = 3.0  # rows are assumed to gain this many times the worth of what they take of the limits
_CONSTANT = 1e-3  # and at least this part of the bound
_FLOOR = 0.5  # part of a typical price that is added to every price


@dataclass(eq=False)
class Memory:
    """The last prices, and the box in which the rows' states hold.

    worth: the average gain of a row, without what it gains in every plan.
    moved: the largest relative change of a price at the last solve.
    """

    prices: Floats | None = None
    worth: float = 1.0
    moved: float = 0.0
    held: Box = NO_BOX

    @property
    def ahead(self) -> float:
        """How far prices are expected to move, relative to each."""
        return min(max(_AHEAD * self.moved, _LEAST_REACH), _MOST_REACH)

    def near(self, program: Program, known: Known, prices: Floats, reach: float) -> Near:
        """Return what is open around prices. The held box stays in use as long as it serves."""
        near = near_around(program, known, self.held, prices, reach, self.typical(program))
        self.held = near.box
        return near

    def learn(self, program: Program, prices: Floats, bound: float) -> None:
        """Remember the prices, how far they have moved, and what rows are worth now."""
        if self.prices is not None:
            scale = np.maximum(prices + _FLOOR * self.typical(program), TOLERANCE)
            self.moved = float((np.abs(prices - self.prices) / scale).max(initial=0.0))
        self.prices = prices
        # Gains may contain a constant that is the same in every plan, so the worth of the limits tells the scale.
        limits = _SHARE * float(prices @ program.capacity)
        scale = np.clip(limits, _CONSTANT * abs(bound), abs(bound))
        self.worth = max(float(scale) / max(len(program.rows.order), 1), TOLERANCE)

    def typical(self, program: Program) -> float:
        """Return about what a unit of a limit costs."""
        return self.worth * len(program.rows.order) / max(float(program.capacity.sum()), 1.0)
