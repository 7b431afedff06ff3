"""What one solve of a program leaves for the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .box import NO_BOX, Box, Known, Near, Program, near_around
from .options import Floats
from .problem import TOLERANCE

# Prices are expected to move this many times as far as at the last solve, within these limits.
_AHEAD, _LEAST_REACH, _MOST_REACH = 2.0, 0.02, 0.15
_SHARE = 3.0  # rows are taken to gain this many times what they take of the limits is worth,
_CONSTANT = 1e-3  # and at least this part of the bound
_FLOOR = 0.5  # every price counts as larger by this part of a typical one


@dataclass(eq=False)
class Memory:
    """The last prices, and the box in which the rows' states hold.

    worth: what a row gains on average, without what every plan gains.
    moved: the largest relative change of a price at the last solve.
    """

    prices: Floats | None = None
    worth: float = 1.0
    moved: float = 0.0
    held: Box = NO_BOX

    @property
    def ahead(self) -> float:
        """How far prices are expected to move, as a part of each."""
        return min(max(_AHEAD * self.moved, _LEAST_REACH), _MOST_REACH)

    def near(self, program: Program, known: Known, prices: Floats, reach: float) -> Near:
        """Return what is open around prices, in the box there was while it serves."""
        near = near_around(program, known, self.held, prices, reach, self.typical(program))
        self.held = near.box
        return near

    def learn(self, program: Program, prices: Floats, bound: float) -> None:
        """Remember the prices, how far they are from the last ones, and what rows are worth now."""
        if self.prices is not None:
            scale = np.maximum(prices + _FLOOR * self.typical(program), TOLERANCE)
            self.moved = float((np.abs(prices - self.prices) / scale).max(initial=0.0))
        self.prices = prices
        # Gains may have a constant that no plan can change, so what the limits are worth tells the scale.
        limits = _SHARE * float(prices @ program.capacity)
        scale = np.clip(limits, _CONSTANT * abs(bound), abs(bound))
        self.worth = max(float(scale) / max(len(program.rows.order), 1), TOLERANCE)

    def typical(self, program: Program) -> float:
        """Return what a unit of a limit costs, about."""
        return self.worth * len(program.rows.order) / max(float(program.capacity.sum()), 1.0)
