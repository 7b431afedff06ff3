"""The service `team_load`: it foretells how many GPUs the new jobs of each team will ask for, and job lengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from ...core.wording import span
from ...estimators.arriving.classes import LengthClasses
from ...estimators.arriving.features import DAY_S
from ...estimators.arriving.model import STEP_S, Arriving, refit
from ...estimators.arriving.past import TeamJobs, TeamPast
from ...estimators.arriving.watch import Watch
from ...estimators.foretold import Foretold
from ...estimators.job_history import EndedJob, StartedJob, SubmittedJob
from ...estimators.new_load import RECENT, TeamArrivals
from ...policies.contract.foresight import Foresight
from .contract import Fact, Service
from .registry import register

WINDOWS_S = (300.0, 3600.0, 43_200.0)  # as `anticipatory` has them


class TeamLoadOptions(BaseModel):
    """What an operator may set.

    recent: a team is taken to ask for the most that it asked for in one of so many windows before now.
    days: submissions are remembered for so long.
    learned: whether it is learned when jobs arrive at all; false: they always do.
    windows_s: horizons that are learned, ascending; best those of the policy. They are classes of lengths, too.
    least_days: so many days have to be known before a model is fitted.
    refit_h: hours between two fits, at most.
    least_recall: a model is not heeded for a team and window of which it foretold fewer arrivals of the last day.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    recent: int = Field(default=RECENT, ge=1)
    days: float = Field(default=60.0, gt=0)
    learned: bool = True
    windows_s: tuple[float, ...] = Field(default=WINDOWS_S, min_length=1)
    least_days: float = Field(default=3.0, gt=0)
    refit_h: float = Field(default=24.0, gt=0)
    least_recall: float = Field(default=0.5, ge=0, le=1)
    seed: int = Field(default=0, ge=0)

    @field_validator("windows_s")
    @classmethod
    def _ascending(cls, windows_s: tuple[float, ...]) -> tuple[float, ...]:
        for before, after in zip((0.0, *windows_s), windows_s, strict=False):
            if not before < after:
                raise ValueError(f"{after:g} follows {before:g}; windows above 0 s that rise are accepted")
        return windows_s


@dataclass(frozen=True, eq=False)
class TeamLoad:
    """Foresight at one moment. A team that never submitted anything may ask for all that it was promised.

    none_come: teams and windows in which no job is foretold to arrive.
    missed: those of which too few arrivals were foretold of late, so that jobs are expected to arrive.
    """

    arrivals: Mapping[str, TeamArrivals]
    now: float
    recent: int
    windows_s: tuple[float, ...] = ()
    none_come: frozenset[tuple[str, float]] = frozenset()
    missed: frozenset[tuple[str, float]] = frozenset()

    def jobs(self) -> None:
        """Return None, as single jobs are not known."""
        return None

    def new_load(self, team: str, horizon_s: float) -> float:
        """Return the GPUs that new jobs of a team ask for; inf: nobody knows. A window tells of shorter ones."""
        own = self.arrivals.get(team)
        if own is None:
            return math.inf
        window_s = next((window_s for window_s in self.windows_s if horizon_s <= window_s), None)
        if window_s is not None and (of := (team, window_s)) in self.none_come and of not in self.missed:
            return 0.0
        return own.estimate(self.now, horizon_s, self.recent)


@register("team_load")
class TeamLoadService(Service):
    """Learns when jobs of each team arrive, and expects that it then asks for as much as of late."""

    Options = TeamLoadOptions

    def __init__(self, options: TeamLoadOptions | None = None) -> None:
        self.options = options or TeamLoadOptions()
        self._arrivals: dict[str, TeamArrivals] = {}
        self._jobs: dict[str, TeamJobs] = {}
        self._classes = LengthClasses(self.options.windows_s)
        self._since_s = math.inf  # of the first submission
        self._watch: Watch | None = None
        self._model: Arriving | None = None
        self._fitted_s = -math.inf
        self._next_s = -math.inf  # when all teams are looked at anew
        self._changed: set[str] = set()  # teams of which something has happened since they were looked at
        self._none_come: set[tuple[str, float]] = set()

    # --- facts ------------------------------------------------------------------------------------------------

    def observe(self, fact: Fact) -> None:
        """Note a job that was submitted, has got GPUs, or has ended."""
        if isinstance(fact, SubmittedJob):
            self._note(fact)
        elif isinstance(fact, StartedJob):
            typical_s = self._classes.typical_s(fact.job)
            due_s = math.inf if typical_s is None else fact.started_s + typical_s
            self._of(fact.job).began(fact.job.id, fact.started_s, due_s)
        elif isinstance(fact, EndedJob):
            own = self._of(fact.job)
            own.over(fact.job.id, fact.ended_s)
            own.forget(fact.ended_s - DAY_S * self.options.days)
            self._classes.ended(fact)

    def foretell(self, job: SubmittedJob) -> Foretold | None:
        """Note a job, and return the class of its length by jobs of its experiment, else of its team and width."""
        self._note(job)
        return self._classes.of(job)

    def _note(self, job: SubmittedJob) -> None:
        own = self._arrivals.setdefault(job.team, TeamArrivals())
        own.add(job.submitted_s, job.gpus)
        own.forget(job.submitted_s - DAY_S * self.options.days)
        self._of(job).submitted.add(job.submitted_s)
        self._since_s = min(self._since_s, job.submitted_s)

    def _of(self, job: SubmittedJob) -> TeamJobs:
        """Return what is known of the team of a job of which something has happened."""
        self._changed.add(job.team)
        return self._jobs.setdefault(job.team, TeamJobs())

    def pasts(self, since_s: float = -math.inf) -> dict[str, TeamPast]:
        """Return what is known of each team, of runs those that go on or ended after `since_s`."""
        return {team: jobs.past(since_s) for team, jobs in self._jobs.items()}

    # --- forecasts --------------------------------------------------------------------------------------------

    def foresight(self, now: float) -> Foresight:
        """Return what is foretold of teams; without a model jobs always arrive.

        A team is looked at anew every 5 min, and at once when it has submitted, started or ended a job.
        """
        if self._model is None or self._watch is None:
            return TeamLoad(self._arrivals, now, self.options.recent)
        if now >= self._next_s:
            self._next_s = now + STEP_S
            self._watch.look(self.pasts(self._watch.since_s), now)
            self._changed = set(self._jobs)
        if self._changed:
            teams = sorted(self._changed)
            said = self._model.said([self._jobs[team].past(now) for team in teams], np.array([now]))
            self._none_come = {key for key in self._none_come if key[0] not in self._changed} | {
                (team, window_s)
                for window_s, rows in said.items()
                for team, come in zip(teams, rows[:, 0].tolist(), strict=True)
                if not come
            }
            self._changed = set()
        none_come, missed = frozenset(self._none_come), self._watch.missed
        return TeamLoad(self._arrivals, now, self.options.recent, self.options.windows_s, none_come, missed)

    def distrusted(self) -> Mapping[str, str]:
        """Return the teams and windows of which too few arrivals were foretold in the last day."""
        missed = frozenset[tuple[str, float]]() if self._watch is None else self._watch.missed
        return {
            f"{team}/{window_s:g}": f"team {team or 'default'}: jobs that came within {span(window_s)} were not "
            "foretold in the last day; they are expected at any time"
            for team, window_s in sorted(missed)
        }

    # --- learning ---------------------------------------------------------------------------------------------

    def fit_due(self, now: float) -> bool:
        """Return whether `refit_h` have passed since the last fit, and enough days are known."""
        return self._may_fit(now, 3600.0 * self.options.refit_h)

    def fit_wanted(self, now: float) -> bool:
        """Return whether half of that has passed."""
        return self._may_fit(now, 1800.0 * self.options.refit_h)

    def _may_fit(self, now: float, after_s: float) -> bool:
        known = now - self._since_s >= DAY_S * self.options.least_days
        return self.options.learned and known and now - self._fitted_s >= after_s

    def fitting(self, now: float) -> Callable[[], Arriving | None]:
        """Return a fit to what is known by now."""
        self._fitted_s = now
        pasts = list(self.pasts().values())
        since_s = max(self._since_s, now - DAY_S * self.options.days)
        windows_s, seed = self.options.windows_s, self.options.seed
        return partial(refit, pasts, since_s, now, windows_s, self._model, seed=seed)

    def take(self, model: Arriving | None) -> None:
        """Use a model from now on; None: too little is known, or it is worse than the one in use."""
        if model is not None:
            self._use(model)

    def document(self) -> Mapping[str, Any] | None:
        """Return the trees as plain JSON values; None before the first fit."""
        return None if self._model is None else self._model.to_json()

    def read(self, document: Mapping[str, Any]) -> None:
        """Use the model that `document` returned. Raises ValueError, in one sentence, for any other document."""
        model = Arriving.read(document, self.options.windows_s)
        if self.options.learned:
            self._use(model)
            self._fitted_s = model.until_s

    def _use(self, model: Arriving) -> None:
        self._model, self._watch = model, Watch(model, self.options.least_recall)
        self._next_s = -math.inf
