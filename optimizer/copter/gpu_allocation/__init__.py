"""A round of GPU allocation by solvers that ours is compared with: HiGHS, POP, the continual engine and a shim.

Each takes a `ChoiceProgram` and answers with a `ChoiceSolution`; `policies/choosing/solvers.py` names them.
"""
