"""Numbers that tell apart what combinations of picks take of each limit; compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel, step

_MIX = np.uint64(0x9E3779B97F4A7C15)
_UNITS = 64.0  # of an amount, that are told apart


@kernel
def factors(limits: int) -> NDArray[np.uint64]:
    """Odd numbers unlike each other: digests are sums of what is taken, times these."""
    found = np.empty(limits, np.uint64)
    state = _MIX
    for u in range(limits):
        state = (state ^ (state >> np.uint64(31))) * _MIX + np.uint64(u)
        found[u] = state | np.uint64(1)
    return found


@step
def digest_of(amount: float, factor: np.uint64) -> np.uint64:
    """What an amount of one limit adds to a digest."""
    return np.uint64(np.int64(np.floor(amount * _UNITS + 0.5))) * factor


@step
def place_of(digest: np.uint64, size: np.uint64) -> np.uint64:
    """Where to look first in a table of `size` places, a power of two."""
    return (digest ^ (digest >> np.uint64(29))) * _MIX >> np.uint64(20) & (size - np.uint64(1))
