"""Linear and integer programs."""

from .choice import ChoiceProblem, ChoiceProgram, ChoiceSolution
from .continual import ContinualProgram, Row
from .milp import solve

__all__ = ["ChoiceProblem", "ChoiceProgram", "ChoiceSolution", "ContinualProgram", "Row", "solve"]
