"""UniSched's speed formula (Equation 2): two times of communication, measured with two GPUs. Pure.

It is here as a peer and for what is run as published. The house's own model is `throughput.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TwoSpeeds:
    """Seconds of a step on one GPU, and what each GPU beyond the first adds, on one node and on several.

    Raises:
        ValueError: for a step of no time, and for times below 0 or not finite.
    """

    compute_s: float
    within_s: float
    across_s: float

    def __post_init__(self) -> None:
        for name in ("compute_s", "within_s", "across_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0) or (name == "compute_s" and value == 0):
                least = "above 0" if name == "compute_s" else "0 or more"
                raise ValueError(f"{name}: {value} is not accepted, must be finite and {least}")

    @classmethod
    def of(cls, one_gpu_s: float, one_node_s: float, two_nodes_s: float) -> TwoSpeeds:
        """Return the formula of measured steps: of one GPU, of two on one node, and of two on two nodes.

        Two GPUs that took no longer than one add nothing.
        """
        return cls(one_gpu_s, max(one_node_s - one_gpu_s, 0.0), max(two_nodes_s - one_gpu_s, 0.0))

    def step_time_s(self, nodes: ArrayLike, gpus: ArrayLike) -> Floats:
        """Return seconds of a step at the local batch size that was measured; arguments broadcast."""
        added = np.where(np.asarray(nodes) == 1, self.within_s, self.across_s)
        return self.compute_s + (np.asarray(gpus, float) - 1) * added
