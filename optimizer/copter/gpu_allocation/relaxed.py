"""COpter's peers: the LP relaxation by any solver of linear programs, rounded by the shim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...allocation import ChoiceProgram, ChoiceSolution
from ...allocation.listing import Entries
from ...linear_program import LinearProgram, LinearSolution
from ..baselines.hot_highs import HotHighs, LpSolver
from .program import Reading
from .shim import largest_weights


@dataclass
class Relaxed:
    """Solves the LP relaxation by some solver, then applies COpter's shim: LP* of table 4.1.

    The relaxation is solved to its end whatever the time limit, as there is no plan without it.
    """

    solver: LpSolver
    _serial: dict[str, int] = field(default_factory=dict)  # numbers that stay a job's own

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        reading = Reading.of(program, order)
        entries, usage, capacity = reading.entries, reading.usage, reading.capacity
        linear = reading.linear_program(integer=False)
        found = self._solve(linear, entries, order, usage.shape[1], len(capacity))
        if found.x is None:
            return reading.plan(np.full(len(order), -1), np.inf, np.zeros(len(capacity)), gap, found.seconds)
        choice = largest_weights(entries, found.x, len(order), usage, capacity)
        prices = np.zeros(len(capacity)) if found.row_dual is None else -found.row_dual[len(order) :]
        return reading.plan(choice, -found.bound, np.maximum(prices, 0.0), gap, found.seconds)

    def _solve(
        self, linear: LinearProgram, entries: Entries, order: Sequence[str], columns: int, limits: int
    ) -> LinearSolution:
        if not isinstance(self.solver, HotHighs):
            return self.solver.solve(linear)
        serial = np.array([self._serial.setdefault(id, len(self._serial)) for id in order], np.int64)
        return self.solver.solve(
            linear,
            serial[entries.row] * columns + entries.column,
            np.concatenate([limits + serial, np.arange(limits)]),
        )
