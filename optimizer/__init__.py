"""Linear and integer programs."""

from .choice.problem import ChoiceProblem, ChoiceSolution
from .milp import solve

__all__ = ["ChoiceProblem", "ChoiceSolution", "solve"]
