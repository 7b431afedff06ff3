"""Solvers of a round that ours is compared with, by name."""

from __future__ import annotations

from collections.abc import Callable

from ...highs import Highs, Method
from ..baselines.hot_highs import HotHighs
from .engine import Continual
from .exact import Ilp, Reduced
from .pop import Pop
from .relaxed import Relaxed

ComparedSolver = Reduced | Ilp | Relaxed | Pop | Continual

_SOLVERS: dict[str, Callable[[], ComparedSolver]] = {
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


def compared_solvers() -> tuple[str, ...]:
    return tuple(_SOLVERS)


def compared_solver(name: str) -> ComparedSolver:
    """Return a new solver. Raises KeyError for an unknown name."""
    return _SOLVERS[name]()
