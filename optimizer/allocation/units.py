"""Units in which the numbers of a program are about 1, as the tolerances of solvers assume.

Units are powers of two, so that counting in them rounds nothing.
"""

from __future__ import annotations

import math

import numpy as np

from .options import Floats

_LEAST, _MOST = 1e-3, 1e6  # numbers between these need no other unit
_MOST_WHOLE = 2.0**40  # nor do whole numbers up to this


def unit_of(typical: float) -> float:
    """Return the unit for numbers of about `typical` >= 0; 1 if that is 0 or not finite."""
    if typical == 0.0 or _LEAST <= typical <= _MOST or not math.isfinite(typical):
        return 1.0
    return 2.0 ** math.floor(math.log2(typical))


def limit_units(usage: Floats) -> Floats:
    """Return (limits,) the unit of each limit, for a usage of (limits, columns).

    Whole numbers stay whole, unless they are so large that a solver cannot tell neighbours apart.
    """
    most = usage.max(axis=1, initial=0.0)
    whole = (usage == np.floor(usage)).all(axis=1)
    typical = np.where(whole & (most > 0.0) & (most <= _MOST_WHOLE), 1.0, most)
    return np.array([unit_of(m) for m in typical.tolist()])
