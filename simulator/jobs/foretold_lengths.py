"""What policies are told of jobs whose true lengths are hidden: what a service foretold, or other estimates."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ...core.expected import UNKNOWN, Expected, ExpectedSource
from ...estimators.foretold import Foretold, means_left
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .told import ToldNothing, upper_ends

# Part of all jobs, and the relative error of their estimate, drawn evenly between the two. Its sign is even.
# These are of the authors' prototype of Helios, for its evaluation on Philly.
ERRORS = ((0.1, 0.0, 0.1), (0.4, 0.1, 0.5), (0.2, 0.5, 1.0), (0.2, 1.0, 10.0), (0.1, 10.0, 100.0))


class ToldForetold(ToldNothing):
    """Tell what the service `durations` foretold when each job was submitted, less what the job has had.

    Args:
        foretold: by job id, filled as jobs are submitted.
    """

    def __init__(
        self, restart_s: Callable[[int], float], workload: Workload, foretold: Mapping[str, Foretold]
    ) -> None:
        super().__init__(restart_s)
        self._ids, self._foretold = workload.ids, foretold
        self._mean_s, self._sigma = np.full(len(workload), np.nan), np.ones(len(workload))

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the means of `expected`; nan: nobody can tell."""
        for job in jobs[np.isnan(self._mean_s[jobs])].tolist():
            if (found := self._foretold.get(self._ids[job])) is not None:
                self._mean_s[job], self._sigma[job] = found.mean_s, found.sigma
        return means_left(self._mean_s[jobs], self._sigma[jobs], progress)

    def high_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the upper ends of the bands of `expected`; nan: nobody knows."""
        return upper_ends(self, jobs, progress)

    def expected(self, job: int, progress: float) -> Expected:
        """Return what is left of the forecast."""
        found = self._foretold.get(self._ids[job])
        return UNKNOWN if found is None else found.left(progress)


class ToldEstimates(ToldNothing):
    """Tell estimates from outside, less what each job has had.

    Args:
        estimates_s: (jobs,) of the whole lengths; below 0 where a perturbed one is.
    """

    def __init__(self, restart_s: Callable[[int], float], estimates_s: Floats) -> None:
        super().__init__(restart_s)
        self._estimates_s = estimates_s

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) what is left; it may be below 0, as estimates may."""
        return self._estimates_s[jobs] - progress

    def expected(self, job: int, progress: float) -> Expected:
        """Return what is left, at least 0."""
        return Expected.exactly(max(float(self._estimates_s[job]) - progress, 0.0), ExpectedSource.TRACE)


def perturbed(lengths_s: Floats, seed: int) -> Floats:
    """Return (jobs,) true lengths with the errors that Helios' estimates have (`ERRORS`); some are below 0."""
    random = np.random.default_rng([seed, 57])
    parts = np.array([part for part, _, _ in ERRORS])
    kind = random.choice(len(ERRORS), len(lengths_s), p=parts)
    low, high = np.array([ends for _, *ends in ERRORS])[kind].T
    error = random.uniform(low, high) * random.choice([-1.0, 1.0], len(lengths_s))
    return lengths_s * (1 + error)
