"""Which jobs get how many GPUs of which type (Sia's program, COpter section 4.4), by different solvers.

Every solver takes the same `ChoiceProgram`, whose rows are jobs and whose columns are configurations. Only
`structured` works on it as it is; the others read all of it, which is part of what they cost.
"""

from .solvers import AllocationSolver, allocation_solver, allocation_solvers

__all__ = ["AllocationSolver", "allocation_solver", "allocation_solvers"]
