"""Learns from ended runs beside rounds. A round reads the last good model and never waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Generic

from ...core.events import EventKind
from ...core.job import Phase
from ...core.wording import in_words
from ...estimators import learned_file
from ...estimators.learner import EndedRun, LearnedT, Learner
from ...estimators.relearning import Comparison, Fitted, relearn
from ..jobs.record import JobRecord
from ..runtime.clock import Clock
from ..store.ended import Ended
from ..store.events import Event
from ..store.store import Store
from .hooks import Change, CycleHook, RoundDone

LEARN_EVERY_S = 60.0  # at least between two fits
MOST_RUNS, LOOKED_AT = 20_000, 1_000  # the newest runs that are learned from, and that are looked at after a start


class LearningHook(CycleHook, Generic[LearnedT]):
    """Fits a learner in a thread after runs have ended, and keeps its model in a file.

    A new model that predicts held-back runs worse than the one in use is not taken. The log tells both losses.
    `failed` is told in one sentence when a file cannot be read or written, or a fit fails. `model` then stays.

    Args:
        nothing: the model before anything is learned.
        folder: where the model's file lies.
    """

    def __init__(
        self,
        store: Store,
        learner: Learner[LearnedT],
        nothing: LearnedT,
        folder: Path,
        clock: Clock,
        failed: Callable[[str], None],
    ) -> None:
        self._store, self._learner, self._clock, self._failed = store, learner, clock, failed
        self._path = folder / f"{learner.name}.json"
        self._thread: threading.Thread | None = None
        self._fitted_s: float | None = None  # monotonic; None before the first fit of this process
        self._news = any(job.taught for job in store.ended_jobs(LOOKED_AT))
        self._in_use = Fitted(nothing)
        try:
            document, until_s = learned_file.read(self._path, learner.name)
            self._in_use = Fitted(learner.read(document), until_s)
        except FileNotFoundError:
            pass
        except ValueError as error:
            failed(f"{error}; it is learned anew")

    @property
    def model(self) -> LearnedT:
        """The model in use."""
        return self._in_use.model

    def changed(self, change: Change) -> None:
        """Take note of a run that has ended."""
        self._news |= change.before.active and ended_well(change.after)

    def planned(self, done: RoundDone) -> None:
        """Begin a fit if a run has ended since the last one."""
        now_s = self._clock.monotonic_s()
        busy = self._thread is not None and self._thread.is_alive()
        if busy or not self._news or (self._fitted_s is not None and now_s - self._fitted_s < LEARN_EVERY_S):
            return
        self._news, self._fitted_s = False, now_s
        self._thread = threading.Thread(target=self._fit, args=(done.round.now,), name="learning", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for a fit that is under way. Return whether it has ended in time."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    def _fit(self, now: float) -> None:
        name = self._learner.name
        try:
            ended = self._store.ended_jobs(MOST_RUNS)
            history = [ended_run(job) for job in ended if job.taught]
            found = relearn(self._learner, self._in_use, history, now)
            if found.fitted is not self._in_use:
                learned_file.write(self._path, name, found.fitted.model.to_json(), found.fitted.until_s)
                self._in_use = found.fitted
            if found.comparison is not None:
                self._store.log(learned_event(name, found.comparison, now))
        except Exception as error:
            self._failed(f"{name}: was not learned anew: {in_words(error)}")


def learned_event(name: str, comparison: Comparison, now: float) -> Event:
    """Return the event that tells whether a new model was taken, and the losses that decided it."""
    data = {"model": name, "text": f"{name}: {comparison.text}", "taken": comparison.taken, **asdict(comparison)}
    return Event(EventKind.LEARNED, now, None, data)


def ended_well(job: JobRecord) -> bool:
    """Return whether a job with a known script has succeeded."""
    return job.phase is Phase.SUCCEEDED and bool(job.script_key) and job.state.finished_s is not None


def ended_run(job: Ended) -> EndedRun:
    """Return what learners see of an ended job."""
    return EndedRun(job.owner, job.script_key, job.finished_s, job.served_s, job.samples, job.curve)
