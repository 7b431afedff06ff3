"""Linear and integer programs."""

from .milp import ChoiceProblem, ChoiceSolution, solve

__all__ = ["ChoiceProblem", "ChoiceSolution", "solve"]
