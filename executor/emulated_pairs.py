"""How fast two jobs are on one emulated GPU: as a table of pairs says, or as what both use of it foretells."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .emulated_gpu import TenantProfile

FORETOLD = "foretold by what both use of a GPU"


def pair_speed(own: TenantProfile, other: TenantProfile) -> tuple[float, str]:
    """Return the speed of a job beside another one, over that alone, and its source. It is 1 at most."""
    if (measured := own.beside.get(other.kind)) is not None:
        return min(measured[0], 1.0), own.source
    if (measured := other.beside.get(own.kind)) is not None:
        return min(measured[1], 1.0), other.source
    from ..estimators.affinity import pair_speeds  # most jobs are alone, and need no model

    return float(pair_speeds.default().of(_row(own), _row(other))[0]), FORETOLD


def _row(profile: TenantProfile) -> NDArray[np.float64]:
    known = (profile.gpu_util, profile.memory_util, profile.memory_gib, None)
    return np.array([[math.nan if one is None else one for one in known]])
