"""GPUs of each type that a round may still give away while it chooses jobs; where they go is decided later."""

from __future__ import annotations

from ...core.cluster import Cluster


class Budget:
    """What is left of each GPU type for the jobs that come next. It knows no nodes; `Ledger` does."""

    def __init__(self, cluster: Cluster) -> None:
        self._left = dict(cluster.capacity())

    def take(self, gpu_type: str, gpus: int) -> bool:
        """Take GPUs of a type, all or nothing. Return whether so many were left."""
        fits = gpus <= self._left[gpu_type]
        if fits:
            self._left[gpu_type] -= gpus
        return fits
