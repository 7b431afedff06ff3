"""Has the jobs of each round foretold, in a thread and a process beside it. No round waits for that."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ...core.job import Phase
from ...core.schemas import Prediction
from ...core.settings import Settings
from ...core.teams import Teams
from ...core.wording import in_words
from ...forecasts.answers import Forecast, JobForecast
from ...forecasts.questions import Question
from ...forecasts.state import LiveState, PastJob
from ..observers.hooks import Change, CycleHook, RoundDone
from ..runtime.clock import Clock
from ..store.failures import StoreFailure
from ..store.store import Store
from .calibration import Calibration
from .live_state import live_state, measuring_s
from .past_jobs import PastJobs, newest
from .process import ForecastProcess, ProcessLost
from .shown import prediction, settled

log = logging.getLogger(__name__)

FACT = "forecast_scores"  # of the store
MINUTE_S = 60.0
LEAST_CPU_S = 1.0  # a forecast waits for so much of the minute, or for what the last one took
MOST_CPU_S = 6.0  # of one forecast, but for a first look ahead, which may take twice that
NEAR, LEAST_NEAR = 20, 3
FIRST_WAIT_S, MOST_WAIT_S = 5.0, 300.0  # after the process was lost


@dataclass
class Budget:
    """The seconds of one core that forecasts may take a minute."""

    per_minute_s: float
    spent: deque[tuple[float, float]] = field(default_factory=deque)  # (moment, seconds)

    def left_s(self, now_s: float) -> float:
        """Return what is left at a moment."""
        while self.spent and self.spent[0][0] <= now_s - MINUTE_S:
            self.spent.popleft()
        return self.per_minute_s - sum(seconds for _, seconds in self.spent)

    def begins_s(self, now_s: float, needed_s: float) -> float:
        """Return when so much is left."""
        left_s = self.left_s(now_s)
        if left_s >= needed_s:
            return now_s
        for moment, seconds in self.spent:
            left_s += seconds
            if left_s >= needed_s:
                return moment + MINUTE_S
        return now_s + MINUTE_S


class Forecaster(CycleHook):
    """Keeps the newest forecast of all jobs.

    Args:
        process: that simulates; None: one of its own.
        teams: returns those that count.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        process: ForecastProcess | None = None,
        teams: Callable[[], Teams | None] = lambda: None,
    ) -> None:
        self._teams = teams
        self._store, self._settings, self._clock = store, settings, clock
        self._process = process or ForecastProcess()
        self._past = PastJobs(store)
        self._budget = Budget(settings.forecast_cpu_s)
        self._round: RoundDone | None = None  # that is not foretold yet
        self._last_round: RoundDone | None = None
        self._woken = threading.Condition()
        self._stopping = self._busy = False
        self._shown: Mapping[str, JobForecast] = {}
        self._made: Forecast | None = None
        self._saved = store.read_fact(FACT) or ""
        self._calibration = Calibration.from_json(self._saved)
        self._trouble = ""
        self._losses, self._again_s = 0, 0.0
        self._near, self._needs_s = NEAR, min(LEAST_CPU_S, settings.forecast_cpu_s)
        self._known: dict[str, PastJob] = {}
        self._thread: threading.Thread | None = None

    # --- what the cycle tells -------------------------------------------------------------------------------

    def planned(self, done: RoundDone) -> None:
        """Have the jobs of a round foretold, instead of those of a round before that still waits for it."""
        with self._woken:
            self._round = self._last_round = done
            if self._settings.forecast_cpu_s > 0 and self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="forecasts", daemon=True)
                self._thread.start()
            self._woken.notify_all()

    def changed(self, change: Change) -> None:
        """Take note of a job that has ended."""
        if change.before.active and not change.after.active:
            job = change.after
            self._past.ended(job.id)
            ended_s = change.now if job.state.finished_s is None else job.state.finished_s
            self._calibration.ended(job.id, ended_s, counts=job.phase is Phase.SUCCEEDED)

    # --- what is asked --------------------------------------------------------------------------------------

    def prediction(self, job_id: str) -> Prediction | None:
        """Return when a job starts and ends; None: nothing is foretold of it yet."""
        made, told = self._made, self._shown.get(job_id)
        return None if made is None or told is None else prediction(told, made.made_s, made.worlds)

    def stretched(self, made: Forecast) -> Forecast:
        """Return a forecast with bands as wide as earlier ones should have been."""
        jobs = {
            job_id: replace(
                told,
                start=self._calibration.stretched(told.start, made.made_s),
                end=self._calibration.stretched(told.end, made.made_s),
            )
            for job_id, told in made.jobs.items()
        }
        return replace(made, jobs=jobs)

    def notes(self) -> list[str]:
        """Return sentences for an operator."""
        return [f"starts and ends of jobs are not foretold anew: {self._trouble}"] if self._trouble else []

    def state(self) -> LiveState | None:
        """Return the state after the last round; None: there was none."""
        done = self._last_round
        return None if done is None else self._state(done)

    def past(self) -> tuple[PastJob, ...]:
        """Return the jobs of the last weeks that are known by now."""
        return tuple(self._known.values())

    def wait(self, timeout_s: float) -> bool:
        """Wait until all rounds so far are foretold. Return whether they are in time."""
        with self._woken:
            return self._woken.wait_for(lambda: self._round is None and not self._busy, timeout_s)

    def stop(self) -> None:
        """End the thread and the process."""
        with self._woken:
            self._stopping = True
            self._woken.notify_all()
        self._process.stop()

    # --- the thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._foretell_rounds()
        finally:
            self._process.stop()  # `stop` may have come just before it began

    def _foretell_rounds(self) -> None:
        while (done := self._next()) is not None:
            try:
                self._foretell(done)
            except ProcessLost as error:
                if self._stopping:
                    return
                wait_s = min(FIRST_WAIT_S * 2**self._losses, MOST_WAIT_S)
                self._losses += 1
                self._again_s = self._clock.monotonic_s() + wait_s
                self._tell(f"{error}; it is started again")
            except Exception as error:
                if not self._stopping:
                    self._tell(in_words(error))
            finally:
                with self._woken:
                    self._busy = False
                    self._woken.notify_all()

    def _next(self) -> RoundDone | None:
        """Wait for a round and for the time to foretell it. Return None when all ends."""
        with self._woken:
            while not self._stopping:
                now_s = self._clock.monotonic_s()
                begins_s = max(self._budget.begins_s(now_s, self._needs_s), self._again_s)
                if self._round is not None and begins_s <= now_s:
                    done, self._round, self._busy = self._round, None, True
                    return done
                self._woken.wait(None if self._round is None else begins_s - now_s)
        return None

    def _foretell(self, done: RoundDone) -> None:
        if not self._process.runs:
            self._past.begin_again()
        news = self._past.news(done.round.cluster, done.round.now)
        self._known = newest(self._known | {one.id: one for one in news}) if news else self._known
        self._budget.per_minute_s = max(self._settings.forecast_cpu_s, 0.1)
        state, began_s = self._state(done), self._clock.monotonic_s()
        # A first look ahead may take twice as long.
        cpu_s = min(MOST_CPU_S, max(self._budget.left_s(began_s) / 2, 0.1))
        answer = self._process.ask(Question("forecast", state, tuple(news), cpu_s, self._near))
        self._losses = 0
        self._budget.spent.append((self._clock.monotonic_s(), answer.cpu_s))
        self._needs_s = min(max(1.5 * answer.cpu_s, LEAST_CPU_S), self._budget.per_minute_s)
        if answer.too_long and self._near > LEAST_NEAR:
            self._near = max(self._near // 2, LEAST_NEAR)
            with self._woken:
                self._round = self._round or done
            return
        if answer.forecast is None:
            self._tell(answer.error)
            return
        for job_id, told in answer.forecast.jobs.items():
            self._calibration.told(job_id, answer.forecast.made_s, told.end)
        made = self.stretched(answer.forecast)
        self._shown, self._made = settled(self._shown, made), made
        if (scores := self._calibration.to_json()) != self._saved:
            with suppress(StoreFailure):  # it is written again after the next round
                self._store.write_fact(FACT, scores)
                self._saved = scores
        if self._trouble:
            log.info("starts and ends of jobs are foretold again")
        self._trouble = ""
        log.debug("round %d foretold in %.1f s", done.number, self._clock.monotonic_s() - began_s)

    def _state(self, done: RoundDone) -> LiveState:
        records = {job.id: job for job in tuple(self._store.unretired.values()) if job.active}
        return live_state(done, records, self._settings, measuring_s(records.values()), self._teams())

    def _tell(self, why: str) -> None:
        if why != self._trouble:
            log.warning("starts and ends of jobs are not foretold anew: %s", why)
        self._trouble = why
