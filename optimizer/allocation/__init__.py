"""Multiple-choice knapsacks with several limits, solved by prices from where the last round ended."""

from .problem import ChoiceProblem, ChoiceSolution
from .program import ChoiceProgram

__all__ = ["ChoiceProblem", "ChoiceProgram", "ChoiceSolution"]
