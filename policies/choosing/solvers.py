"""Solvers of a round by name. Those for comparison are imported only when one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ...optimizer.allocation import ChoiceProgram, ChoiceSolution

STRUCTURED = "structured"
COMPARED = (
    "milp",
    "ilp",
    "highs",
    "highs-ipm",
    "highs-pdlp",
    "highs-hot",
    "highs-pdlp-hot",
    "pop",
    "pop-ray",
    "pop-structured",
    "continual",
)
SOLVERS = (STRUCTURED, *COMPARED)


class AllocationSolver(Protocol):
    """Solves the program of a round. It may keep state from round to round."""

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution: ...


@dataclass(frozen=True)
class Structured:
    """Solves with prices, rounding and the LP's vertex (`optimizer/allocation`)."""

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        return program.solve(order, gap, time_limit_s)


def allocation_solver(name: str) -> AllocationSolver:
    """Return a new solver. Raises ValueError for an unknown name."""
    if name not in SOLVERS:
        raise ValueError(f"solver: {name!r} is unknown; accepted: {', '.join(SOLVERS)}")
    if name == STRUCTURED:
        return Structured()
    from ...optimizer.copter.gpu_allocation.solvers import compared_solver

    return compared_solver(name)
