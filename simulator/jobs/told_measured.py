"""What policies are told of jobs that are measured by training: nothing until one of their script was."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...core.expected import UNKNOWN, Expected
from ...estimators.goodput import GoodputModel
from ...estimators.sensitivity.model import Sensitivity
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .told import Told, ToldPlainly

MEASURING_S = 300.0  # for which a job is measured (UniSched, section III-B)
MOST_GPUS = 2  # on which it is


class ToldMeasured(ToldPlainly):
    """Tell what another one tells, of jobs that were measured. Those of one user, name and GPU count are alike.

    A job is measured on one GPU for half of the time, and then on two. One that ends sooner needs no more.

    Args:
        measuring_s: seconds with GPUs after which a job is known.
    """

    def __init__(self, told: Told, workload: Workload, measuring_s: float = MEASURING_S) -> None:
        self._told, self._measuring_s = told, measuring_s
        self._gpus: list[int] = workload.gpus.tolist()
        both = zip(workload.applications, workload.names, strict=True)
        names = (application or name for application, name in both)
        numbers: dict[tuple[str, str, int], int] = {}
        keys = zip(workload.users, names, self._gpus, strict=True)
        self._script = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        self._known_script = np.zeros(len(numbers), bool)
        self._held_s = np.zeros(len(workload))

    def learn(self, now: float, finished_s: Floats, held_s: Floats) -> None:
        """Note which scripts were measured by now."""
        self._told.learn(now, finished_s, held_s)
        self._held_s = held_s
        done = (held_s >= self._measuring_s - 1e-6) | (finished_s <= now)
        self._known_script[self._script[done]] = True

    def _known(self, jobs: Ints) -> NDArray[np.bool_]:
        return np.asarray(self._known_script[self._script[jobs]], bool)

    def _is_known(self, job: int) -> bool:
        return bool(self._known_script[self._script[job]])

    def measured_on(self, job: int) -> int:
        """Return 1, and 2 from half of the time on; 0: it is known."""
        if self._is_known(job):
            return 0
        half = self._held_s[job] >= self._measuring_s / 2 - 1e-6
        return min(self._gpus[job], MOST_GPUS if half else 1)

    def restart_cost_s(self, job: int, restarts: int = 0) -> float:
        """Return what the other one tells."""
        return self._told.restart_cost_s(job, restarts)

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) what the other one tells of those that are known."""
        return np.where(self._known(jobs), self._told.remaining_s(jobs, progress), np.nan)

    def high_s(self, jobs: Ints, progress: Floats) -> Floats | None:
        """Return (jobs,) what the other one tells of those that are known."""
        found = self._told.high_s(jobs, progress)
        return None if found is None else np.where(self._known(jobs), found, np.nan)

    def expected(self, job: int, progress: float) -> Expected:
        """Return what the other one tells, of a job that is known."""
        return self._told.expected(job, progress) if self._is_known(job) else UNKNOWN

    def longest_s(self, job: int, progress: float) -> float | None:
        """Return what the other one tells, of a job that is known."""
        return self._told.longest_s(job, progress) if self._is_known(job) else None

    def on_nodes(self, job: int) -> Mapping[int, float]:
        """Return what is set, of a job that is known."""
        return super().on_nodes(job) if self._is_known(job) else {}

    def model(self, job: int) -> GoodputModel | None:
        """Return None."""
        return None

    def rates(self, job: int) -> Mapping[str, float] | None:
        """Return None."""
        return None

    def remaining(self, job: int, progress: float) -> float | None:
        """Return None."""
        return None

    def sensitivity(self, job: int) -> Sensitivity | None:
        """Return None."""
        return None
