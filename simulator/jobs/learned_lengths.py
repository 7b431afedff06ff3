"""Jobs of known length whose lengths are hidden. Policies are told what earlier runs took, as live."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import numpy as np

from ...core.expected import Expected
from ...estimators.learner import EndedRun, learn
from ...estimators.predictor import Work, predict
from ...estimators.run_lengths import RunLengthLearner, RunLengths
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .told import ToldNothing

LEARN_EVERY_S = 600.0  # of the trace


class Lengths(StrEnum):
    """What policies are told of how long a job of a trace with lengths still needs."""

    TOLD = "told"  # its true length
    LEARNED = "learned"  # what earlier runs of the same user and script took
    UNKNOWN = "unknown"  # nothing


class ToldLearned(ToldNothing):
    """Tell what the learner of the live service has found out by now, in virtual time.

    Two jobs of a user are runs of one script if they have the same application, or ask for as many GPUs.
    """

    def __init__(self, restart_s: Callable[[int], float], workload: Workload) -> None:
        super().__init__(restart_s)
        self._learner, self._known, self._next_s = RunLengthLearner(), RunLengths(), -np.inf
        named = zip(workload.users, workload.applications, workload.gpus.tolist(), strict=True)
        self._keys = [(user, application or f"{gpus} GPUs") for user, application, gpus in named]

    def learn(self, now: float, finished_s: Floats, held_s: Floats) -> None:
        """Fit to the jobs that had ended by `now`, every `LEARN_EVERY_S`."""
        if now < self._next_s:
            return
        self._next_s = now + LEARN_EVERY_S
        ended = np.flatnonzero(finished_s <= now).tolist()
        history = [EndedRun(*self._keys[job], float(finished_s[job]), float(held_s[job])) for job in ended]
        self._known = learn(self._learner, history, now)

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the means of `expected`; nan: no run of the script has ended."""
        expected = [self.expected(*pair) for pair in zip(jobs.tolist(), progress.tolist(), strict=True)]
        return np.array([one.mean_s if one.known else np.nan for one in expected], float)

    def expected(self, job: int, progress: float) -> Expected:
        """Return what earlier runs took, less the time that the job has trained."""
        return predict(Work(None, trained_s=progress), 0.0, 0.0, self._known.of(*self._keys[job]))
