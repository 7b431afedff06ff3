"""Linear and integer programs."""

from .choice import ChoiceProblem, ChoiceProgram, ChoiceSolution
from .continual import ContinualProgram, Row, Shim, Solution
from .linear_program import LinearProgram, Status
from .milp import solve

__all__ = [
    "ChoiceProblem",
    "ChoiceProgram",
    "ChoiceSolution",
    "ContinualProgram",
    "LinearProgram",
    "Row",
    "Shim",
    "Solution",
    "Status",
    "solve",
]
