"""Continual optimisation: a linear program that changes a little between solves."""

from .program import ContinualProgram, Row

__all__ = ["ContinualProgram", "Row"]
