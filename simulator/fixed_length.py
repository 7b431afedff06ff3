"""Jobs that take a known time on the GPUs they ask for, as in the logs of clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from ..estimators.goodput import JobModel
from ..executor.config import Adaptivity, TrainingConfig
from ..scheduler.job import JobSpec, Resources
from ..scheduler.placement import Placement
from .tables import Floats
from .workload import Ints, Workload
from .world import Motion


@cache
def rigid_spec(gpus: int) -> JobSpec:
    return JobSpec(
        name="trace-job",
        script="trace",
        resources=Resources(gpus=gpus, max_gpus=max(gpus, 64), cpus_per_gpu=0.0),
        training=TrainingConfig(adaptivity=Adaptivity.RIGID),
    )


class FixedLengthWorld:
    """Progress is seconds of work; every GPU type is as fast.

    `restart_s`: seconds without progress when a job that was stopped starts again, by the GPUs it asks for.
    `tells_length`: whether policies are told how long a job still needs.
    """

    learns = False

    def __init__(
        self, workload: Workload, restart_s: Callable[[int], float] = lambda gpus: 30.0, tells_length: bool = True
    ) -> None:
        self.workload = workload
        self._restart_s = restart_s
        self._tells_length = tells_length

    def spec(self, job: int) -> JobSpec:
        return rigid_spec(int(self.workload.gpus[job]))

    def pause_s(self, job: int, old: Placement | None, new: Placement, left_s: float, first: bool) -> float:
        return 0.0 if first else left_s + self.restart_cost_s(job)

    def restart_cost_s(self, job: int) -> float:
        return self._restart_s(int(self.workload.gpus[job]))

    def moves(self, job: int, placement: Placement, progress: float) -> Motion:
        return Motion(1.0, float(self.workload.duration_s[job]))

    def crosses(self, jobs: Ints, placements: Sequence[Placement], progress: Floats) -> tuple[Floats, Floats]:
        return np.full(len(jobs), np.nan), progress

    def trained(self, job: int, placement: Placement) -> None:
        pass

    def model(self, job: int) -> JobModel | None:
        return None

    def rates(self, job: int) -> Mapping[str, float] | None:
        return None

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        return self.workload.duration_s[jobs] - progress if self._tells_length else np.full(len(jobs), np.nan)
