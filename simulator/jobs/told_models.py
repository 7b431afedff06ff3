"""What policies are told of jobs that train models: each job's own findings, as in the live service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ...core.cluster import Cluster
from ...core.completion import fraction_done, samples_left
from ...core.expected import Expected
from ...core.training_config import Adaptivity, Count
from ...estimators.goodput import JobModel
from ...estimators.predictor import Work, asked_speeds, predict
from ...estimators.sensitivity.model import Sensitivity
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .applications import Application
from .told import ToldPlainly, upper_ends


class ModelSource(Protocol):
    """A source of the goodput models of jobs, such as `adaptive.Knowledge`."""

    def model(self, job: int) -> JobModel | None:
        """Return what is known of a job by now; None: nothing."""


class ToldModels(ToldPlainly):
    """Tell a job's fitted model, and the work that its epochs leave.

    Args:
        cluster: where the jobs run. With it, how long rigid jobs still need is told.
    """

    def __init__(
        self,
        workload: Workload,
        applications: Sequence[Application],
        knowledge: ModelSource,
        cluster: Cluster | None,
    ) -> None:
        self._workload, self._applications, self._knowledge = workload, applications, knowledge
        self._cluster = cluster
        self._ends = np.array([a.statistics.boundaries[a.epochs - 1] for a in applications], float)
        self._speed: dict[int, tuple[JobModel, float, float]] = {}  # a rigid job's model, steps/s, their error

    def learn(self, now: float, finished_s: Floats, held_s: Floats) -> None:
        """Do nothing, because a job's own measurements tell more."""

    def restart_cost_s(self, job: int, restarts: int = 0) -> float:
        """Return the assumed cost before the first restart, if the trace has one; later the true cost."""
        application = self._applications[job]
        if restarts or application.assumed_restart_s is None:
            return application.restart_s
        return application.assumed_restart_s

    def model(self, job: int) -> JobModel | None:
        """Return the model that is fitted to the job's measurements."""
        return self._knowledge.model(job)

    def sensitivity(self, job: int) -> Sensitivity | None:
        """Return the true one, as a profile run measures it."""
        return self._workload.inputs[job]

    def rates(self, job: int) -> Mapping[str, float] | None:
        """Return None, because the model says it."""
        return None

    def remaining(self, job: int, progress: float) -> float | None:
        """Return what a live job reports. It ends when its progress is made, as jobs do by default."""
        fraction = fraction_done(Count.PROGRESS, float(self._ends[job]), progress, 0.0)
        return samples_left(progress * self._applications[job].initial_batch_size, fraction)

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) seconds on the fastest GPU type of each rigid job; nan for other jobs."""
        speeds = np.array([self._steps_per_s(job)[0] for job in jobs.tolist()])
        with np.errstate(divide="ignore"):
            left_s = np.maximum(self._ends[jobs] - progress, 0.0) / speeds
        return np.where(np.isfinite(left_s), left_s, np.nan)

    def high_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the upper ends of the bands of `expected`; nan: nobody knows."""
        return upper_ends(self, jobs, progress)

    def expected(self, job: int, progress: float) -> Expected:
        """Return the same with its band, by the predictor of the live service."""
        speed, error = self._steps_per_s(job)
        return predict(Work(max(float(self._ends[job]) - progress, 0.0)), speed, error)

    def _steps_per_s(self, job: int) -> tuple[float, float]:
        """Return the job's speed on the GPUs it asks for, and its relative error; (0, 0): nobody knows.

        The speed is in steps/s at the initial batch size.
        """
        if self._cluster is None or self._workload.adaptivity[job] is not Adaptivity.RIGID:
            return 0.0, 0.0
        model = self._knowledge.model(job)
        if model is None:
            return 0.0, 0.0
        if job not in self._speed or self._speed[job][0] is not model:
            found = asked_speeds([model], [int(self._workload.gpus[job])], self._cluster)
            steps = float(found.samples_per_s[0]) / self._applications[job].initial_batch_size
            self._speed[job] = model, steps, float(found.error[0])
        return self._speed[job][1:]
