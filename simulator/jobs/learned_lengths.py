"""Jobs of known length whose lengths are hidden. Policies are told what earlier runs took, as live."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from ...core.expected import Expected
from ...estimators.learner import EndedRun
from ...estimators.predictor import Work, predict
from ...estimators.relearning import Fitted, relearn
from ...estimators.run_lengths import RunLengthLearner, RunLengths
from ..traces.tables import Floats
from ..traces.workload import Ints, Workload
from .told import ToldNothing, upper_ends

log = logging.getLogger(__name__)
LEARN_EVERY_S = 600.0  # of the trace


class ToldLearned(ToldNothing):
    """Tell what the learner of the live service has found out by now, in virtual time.

    Two jobs of a user are runs of one script if they have the same application, or ask for as many GPUs.
    """

    def __init__(self, restart_s: Callable[[int], float], workload: Workload) -> None:
        super().__init__(restart_s)
        self._learner, self._in_use = RunLengthLearner(), Fitted(RunLengths())
        self._next_s, self._ended = -np.inf, 0
        named = zip(workload.users, workload.applications, workload.gpus.tolist(), strict=True)
        self._keys = [(user, application or f"{gpus} GPUs") for user, application, gpus in named]

    def learn(self, now: float, finished_s: Floats, held_s: Floats) -> None:
        """Fit to the jobs that had ended by `now`, every `LEARN_EVERY_S`; a worse model is not taken."""
        if now < self._next_s:
            return
        self._next_s = now + LEARN_EVERY_S
        ended = np.flatnonzero(finished_s <= now).tolist()
        if len(ended) == self._ended:
            return
        self._ended = len(ended)
        history = [EndedRun(*self._keys[job], float(finished_s[job]), float(held_s[job])) for job in ended]
        found = relearn(self._learner, self._in_use, history, now)
        if found.comparison is not None:
            log.debug("%s at %.0f s: %s", self._learner.name, now, found.comparison.text)
        self._in_use = found.fitted

    def remaining_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the means of `expected`; nan: no run of the script has ended."""
        expected = [self.expected(*pair) for pair in zip(jobs.tolist(), progress.tolist(), strict=True)]
        return np.array([one.mean_s if one.known else np.nan for one in expected], float)

    def high_s(self, jobs: Ints, progress: Floats) -> Floats:
        """Return (jobs,) the upper ends of the bands of `expected`; nan: nobody knows."""
        return upper_ends(self, jobs, progress)

    def expected(self, job: int, progress: float) -> Expected:
        """Return what earlier runs took, less the time that the job has trained."""
        return predict(Work(None, trained_s=progress), 0.0, 0.0, self._in_use.model.of(*self._keys[job]))
