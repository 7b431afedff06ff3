"""Solvers of GPU allocation that ours is compared with: HiGHS, POP, and the continual engine with a shim.

Each takes a `ChoiceProgram` and returns a `ChoiceSolution`. `policies/choosing/solvers.py` names them.
"""
