"""The common part of jobs with a fixed number of GPUs: they learn nothing, and nothing is chosen for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from ...core.job import JobSpec, ResourceRequest
from ...core.placement import Placement
from ...core.training_config import Adaptivity, TrainingConfig
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .told import Told, ToldNothing

RestartS = Callable[[int], float]  # seconds without progress of a start elsewhere, by the GPUs a job asks for


def half_a_minute(gpus: int) -> float:
    """Return 30 s, the default cost of a restart."""
    return 30.0


@cache
def rigid_spec(
    gpus: int, preemptible: bool = True, gpu_types: tuple[str, ...] = (), pool: str | None = None
) -> JobSpec:
    """Return the spec of a rigid job. `gpu_types`: where it can run; empty: anywhere."""
    return JobSpec(
        name="trace-job",
        script="trace",
        preemptible=preemptible,
        pool=pool,
        resources=ResourceRequest(
            gpus=gpus, max_gpus=max(gpus, 64), gpu_types=list(gpu_types) or None, cpus_per_gpu=0.0
        ),
        training=TrainingConfig(adaptivity=Adaptivity.RIGID),
    )


class FixedSizeWorld:
    """A `World` without the rate of its jobs. The first start is free; a job ends at its first boundary.

    Policies are told what a restart costs, and nothing else. `pooled`: a job belongs to the pool of its virtual
    cluster, as all of them are planned at once.
    """

    learns = False
    pooled = False
    told: Told

    def __init__(self, workload: Workload, restart_s: RestartS = half_a_minute) -> None:
        self.workload = workload
        self._restart_s = restart_s
        self.told = ToldNothing(self.restart_s)

    def spec(self, job: int) -> JobSpec:
        pool = (self.workload.virtual_clusters[job] or None) if self.pooled else None
        return rigid_spec(int(self.workload.gpus[job]), bool(self.workload.preemptible[job]), pool=pool)

    def pause_s(self, job: int, old: Placement | None, new: Placement, left_s: float, first: bool) -> float:
        """Return 0 s for the first start, later the seconds of a restart."""
        return 0.0 if first else self.restart_s(job)

    def keeps_s(self, job: int) -> float | None:
        return None

    def restart_s(self, job: int) -> float:
        """Return the seconds without progress of a start elsewhere."""
        own_s = float(self.workload.restart_s[job])
        return self._restart_s(int(self.workload.gpus[job])) if np.isnan(own_s) else own_s

    def crosses(self, jobs: Ints, placements: Sequence[Placement], progress: Floats) -> tuple[Floats, Floats]:
        """Return rate nan, as every job ends at its first boundary."""
        return np.full(len(jobs), np.nan), progress

    def trained(self, job: int, placement: Placement) -> None:
        pass
