"""From a fractional solution to an integer one: each problem brings its own few lines (COpter, section 4.3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from .solution import Solution


class Shim(Protocol):
    """Called with a solution; returns whole numbers for `Solution.values`, (variables,), that are always feasible.

    Feasible comes before good: what cannot be kept within capacities is left out.
    """

    def __call__(self, solution: Solution) -> np.ndarray: ...
