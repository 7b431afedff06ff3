"""Continual optimisation: a linear program that changes a little between solves."""

from .program import ContinualProgram, Row
from .shim import Shim
from .solution import Solution

__all__ = ["ContinualProgram", "Row", "Shim", "Solution"]
