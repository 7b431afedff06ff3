"""From a fractional solution to an integer one: each problem brings its own few lines (COpter, section 4.3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ...linear_program import LinearProgram
from .inputs import numbers

if TYPE_CHECKING:
    from .solution import Solution

ROUNDING = 1e-9  # by which a whole solution may break a side, as a part of it and of all that its row adds up


class Shim(Protocol):
    """Called with a solution; returns whole numbers for `Solution.values`, (variables,), that are always feasible.

    Feasible comes before good: what cannot be kept within capacities is left out.
    """

    def __call__(self, solution: Solution) -> np.ndarray: ...


def checked(given: object, program: LinearProgram, names: Sequence[str]) -> np.ndarray:
    """(variables,) what a shim returned; names: of the program's first rows.

    Raises:
        ValueError: it is not of that shape, has entries that are not whole or out of bounds, or breaks a row.
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
    # Each side by itself: beside the smaller of both the rounding of a large one would be too much.
    size = abs(program.matrix) @ np.abs(integral)
    below, above = low - used > ROUNDING * (size + np.abs(low)), used - high > ROUNDING * (size + np.abs(high))
    fine = ~(below | above)
    if not fine.all():
        i = int(fine.argmin())
        what = names[i] if i < len(names) else "a request's row"
        raise ValueError(f"shim: {what}: {used[i]:g} is used; {low[i]:g} to {high[i]:g} is accepted")
    return integral
