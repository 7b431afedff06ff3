"""Solvers that the continual engine is measured against: HiGHS in its variants, and partitioning (POP)."""
