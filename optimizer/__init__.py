"""Programs and their solvers: the allocation of a round, shares of time, searches."""
