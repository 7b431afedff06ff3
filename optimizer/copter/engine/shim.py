"""Shims turn a fractional solution into an integer one. Each problem has its own (COpter, section 4.3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ...linear_program import LinearProgram
from .inputs import numbers

if TYPE_CHECKING:
    from .solution import Solution

ROUNDING = 1e-9  # how far a whole solution may break a side, relative to it and the terms of its row


class Shim(Protocol):
    """Returns feasible whole numbers (variables,) for a solution's `values`.

    To be feasible comes before to be good: what does not fit the capacities is left out.
    """

    def __call__(self, solution: Solution) -> np.ndarray: ...


def checked(given: object, program: LinearProgram, names: Sequence[str]) -> np.ndarray:
    """Return what a shim returned, (variables,), after checks. `names` are those of the program's first rows.

    Raises:
        ValueError: if it has another shape, entries that are not whole or out of bounds, or breaks a row.
    """
    integral = numbers("shim: what it returned", given)
    if integral.shape != program.cost.shape:
        raise ValueError(f"shim: returned an array of shape {integral.shape}, not {program.cost.shape}")
    within = (integral >= program.lower) & (integral <= program.upper)
    fine = within & np.isfinite(integral) & (integral == np.rint(integral))
    if not fine.all():
        i = int(fine.argmin())
        low, high = program.lower[i], program.upper[i]
        raise ValueError(f"shim: entry {i} is {integral[i]}; whole numbers from {low:g} to {high:g} are accepted")
    used = program.matrix @ integral
    low, high = program.row_lower, program.row_upper
    # Each side is checked by itself, as the rounding of a large side would be too much for a small one.
    size = abs(program.matrix) @ np.abs(integral)
    below, above = low - used > ROUNDING * (size + np.abs(low)), used - high > ROUNDING * (size + np.abs(high))
    fine = ~(below | above)
    if not fine.all():
        i = int(fine.argmin())
        what = names[i] if i < len(names) else "a request's row"
        raise ValueError(f"shim: {what}: {used[i]:g} is used; {low[i]:g} to {high[i]:g} is accepted")
    return integral
