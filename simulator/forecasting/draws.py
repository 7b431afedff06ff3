"""Random numbers of a world. The same job has the same ones in every forecast, so that numbers do not jump."""

from __future__ import annotations

import zlib
from statistics import NormalDist

import numpy as np

STRATA = 8  # so many worlds in a row cover the whole distribution evenly
_NORMAL = NormalDist()


def uniform(key: str, world: int) -> float:
    """Return a number in (0, 1) for a job or anything else with a name. World 0 is the middle one: 0.5."""
    if world == 0:
        return 0.5
    block, at = divmod(world - 1, STRATA)
    random = np.random.default_rng([zlib.crc32(key.encode()), block])
    strata, within = random.permutation(STRATA), random.random(STRATA)
    return float((strata[at] + np.clip(within[at], 0.02, 0.98)) / STRATA)


def normal(key: str, world: int) -> float:
    """Return a draw of the standard normal distribution; 0 in world 0."""
    return _NORMAL.inv_cdf(uniform(key, world))
