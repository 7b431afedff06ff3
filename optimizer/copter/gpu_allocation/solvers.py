"""Solvers of a round, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...allocation import ChoiceProgram, ChoiceSolution
from ..baselines.highs import Highs, HotHighs, Method
from .engine import Continual
from .exact import Ilp, Reduced
from .pop import Pop
from .relaxed import Relaxed


class AllocationSolver(Protocol):
    """Decides a round; may keep what it likes from the one before."""

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution: ...


@dataclass(frozen=True)
class Structured:
    """Prices, the LP's vertex and a search over what is torn (`optimizer/allocation`)."""

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        return program.solve(order, gap, time_limit_s)


_SOLVERS: dict[str, Callable[[], AllocationSolver]] = {
    "structured": Structured,
    "milp": Reduced,
    "ilp": Ilp,
    "highs": lambda: Relaxed(Highs(Method.SIMPLEX)),
    "highs-ipm": lambda: Relaxed(Highs(Method.INTERIOR_POINT)),
    "highs-pdlp": lambda: Relaxed(Highs(Method.PDLP)),
    "highs-hot": lambda: Relaxed(HotHighs(Method.SIMPLEX)),
    "highs-pdlp-hot": lambda: Relaxed(HotHighs(Method.PDLP)),
    "pop": Pop,
    "pop-ray": lambda: Pop(use_ray=True),
    "pop-structured": lambda: Pop(structured=True),
    "continual": Continual,
}


def allocation_solvers() -> tuple[str, ...]:
    return tuple(_SOLVERS)


def allocation_solver(name: str) -> AllocationSolver:
    """A new solver; raises ValueError for an unknown name."""
    if name not in _SOLVERS:
        raise ValueError(f"solver: {name!r} is unknown; accepted: {', '.join(_SOLVERS)}")
    return _SOLVERS[name]()
