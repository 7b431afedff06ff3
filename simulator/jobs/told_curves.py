"""What policies are told of jobs that a metric ends: when it is to be reached, by the points that came so far."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...core.expected import Expected
from ...estimators.curves.curve import Curve
from ...estimators.curves.forecast import since_last
from ...estimators.goodput import GoodputModel
from ...estimators.sensitivity.model import Sensitivity
from ..traces.curves import points_of, target_of
from ..traces.tables import Floats
from ..traces.workload import Ints, TraceCurve, Workload
from .told import Told, ToldPlainly, upper_ends

MOST_RUNS = 3  # earlier runs of a script that are looked at


class ToldCurves(ToldPlainly):
    """Tell of jobs with a learning curve when it is to reach its target, and of all others what another one tells.

    A curve has a point for each epoch that has passed. Jobs of one name are runs of one script, and those that
    have ended tell how theirs went.
    """

    def __init__(self, told: Told, workload: Workload) -> None:
        self._told, self._names = told, workload.names
        self._curves = workload.curves
        self._with = np.array([curve is not None for curve in workload.curves], bool)
        epochs = [1 if curve is None else curve.reached for curve in workload.curves]
        self._epoch_s = workload.duration_s / np.array(epochs)
        self._ended = np.zeros(len(workload), bool)
        self._earlier: dict[str, tuple[Curve, ...]] = {}
        self.exact = told.exact and not self._with.any()

    def learn(self, now: float, finished_s: Floats, held_s: Floats) -> None:
        """Note how the curves of jobs went that have ended by now."""
        self._told.learn(now, finished_s, held_s)
        fresh = np.flatnonzero(self._with & ~self._ended & (finished_s <= now))
        for job in fresh[np.argsort(finished_s[fresh], kind="stable")].tolist():
            if (curve := self._curves[job]) is not None:
                name, course = self._names[job], points_of(curve, curve.reached)
                self._earlier[name] = (*self._earlier.get(name, ()), course)[-MOST_RUNS:]
        self._ended[fresh] = True

    def _reaching(self, job: int, curve: TraceCurve, progress: float) -> Expected:
        epoch_s = float(self._epoch_s[job])
        at, end = progress / epoch_s, float(len(curve.values))
        own = points_of(curve, min(int(at + 1e-9), curve.reached - 1))
        found = since_last(target_of(curve), own, end, self._earlier.get(self._names[job], ()))
        left = found.after(at - (own.at[-1] if own.at else 0.0))
        mean_s, low_s, high_s = (max(part, 0.02) * epoch_s for part in (left.left, left.low, left.high))
        return Expected(mean_s, min(low_s, mean_s), max(high_s, mean_s), left.source, left.basis, left.why)

    def expected(self, job: int, progress: float) -> Expected:
        """Return when the target is to be reached; of a job without one, what the other one tells."""
        curve = self._curves[job]
        return self._told.expected(job, progress) if curve is None else self._reaching(job, curve, progress)

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the means of `expected`; nan: nobody knows."""
        found = np.array(self._told.remaining_s(jobs, progress), float)
        for i in np.flatnonzero(self._with[jobs]).tolist():
            found[i] = self.expected(int(jobs[i]), float(progress[i])).mean_s
        return found

    def high_s(self, jobs: Ints, progress: Floats) -> Floats | None:
        """Return (jobs,) the upper ends of bands; None: there are no doubts."""
        found = self._told.high_s(jobs, progress)
        mine = self._with[jobs]
        if not mine.any():
            return found
        found = np.array(self._told.remaining_s(jobs, progress) if found is None else found, float)
        found[mine] = upper_ends(self, jobs[mine], progress[mine])
        return found

    def longest_s(self, job: int, progress: float) -> float | None:
        """Return what all of its epochs take; None: no metric ends it."""
        curve = self._curves[job]
        if curve is None:
            return self._told.longest_s(job, progress)
        return max(len(curve.values) * float(self._epoch_s[job]) - progress, 0.0)

    def measured_on(self, job: int) -> int:
        """Return what the other one tells."""
        return self._told.measured_on(job)

    def restart_cost_s(self, job: int, restarts: int = 0) -> float:
        """Return what the other one tells."""
        return self._told.restart_cost_s(job, restarts)

    def model(self, job: int) -> GoodputModel | None:
        """Return what the other one tells."""
        return self._told.model(job)

    def rates(self, job: int) -> Mapping[str, float] | None:
        """Return what the other one tells."""
        return self._told.rates(job)

    def remaining(self, job: int, progress: float) -> float | None:
        """Return what the other one tells."""
        return self._told.remaining(job, progress)

    def sensitivity(self, job: int) -> Sensitivity | None:
        """Return what the other one tells."""
        return self._told.sensitivity(job)
