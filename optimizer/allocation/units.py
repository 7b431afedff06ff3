"""Units in which a program's numbers are about 1, as tolerances take them to be, however they were given.

They are powers of two, so that counting in them rounds nothing.
"""

from __future__ import annotations

import math

import numpy as np

from .rows import Floats

_LEAST, _MOST = 1e-3, 1e6  # between these numbers are fine as they are
_MOST_WHOLE = 2.0**40  # up to this large whole numbers are, too


def unit_of(typical: float) -> float:
    """In which numbers of about `typical`, 0 or more, are to be counted; 1 where that is not finite."""
    if typical == 0.0 or _LEAST <= typical <= _MOST or not math.isfinite(typical):
        return 1.0
    return 2.0 ** math.floor(math.log2(typical))


def limit_units(usage: Floats) -> Floats:
    """(limits,) in which what columns take of each is to be counted; usage: (limits, columns).

    Large whole numbers stay as they are, as use is made of their being whole, but for those that no solver tells
    from the next ones.
    """
    most = usage.max(axis=1, initial=0.0)
    whole = (usage == np.floor(usage)).all(axis=1)
    return np.array(
        [unit_of(m) for m in np.where(whole & (most > 0.0) & (most <= _MOST_WHOLE), 1.0, most).tolist()]
    )
