"""The service `team_load`: it foretells how many GPUs the new jobs of each team will ask for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from ...estimators.job_history import SubmittedJob
from ...estimators.new_load import RECENT, TeamArrivals
from ...policies.contract.foresight import Foresight
from .contract import Fact, Service
from .registry import register

DAY_S = 86_400.0


class TeamLoadOptions(BaseModel):
    """What an operator may set.

    recent: a team is taken to ask for the most that it asked for in one of so many windows before now.
    days: submissions are remembered for so long.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    recent: int = Field(default=RECENT, ge=1)
    days: float = Field(default=30.0, gt=0)


@dataclass(frozen=True, eq=False)
class RecentLoad:
    """Foresight at one moment. A team that never submitted anything may ask for all that it was promised."""

    arrivals: Mapping[str, TeamArrivals]
    now: float
    recent: int

    def jobs(self) -> None:
        """Return None, as single jobs are not known."""
        return None

    def new_load(self, team: str, horizon_s: float) -> float:
        own = self.arrivals.get(team)
        return math.inf if own is None else own.estimate(self.now, horizon_s, self.recent)


@register("team_load")
class TeamLoadService(Service):
    """Remembers what each team asked for, and expects that it asks for as much again."""

    Options = TeamLoadOptions

    def __init__(self, options: TeamLoadOptions | None = None) -> None:
        self.options = options or TeamLoadOptions()
        self._arrivals: dict[str, TeamArrivals] = {}

    def observe(self, fact: Fact) -> None:
        """Note a job that was submitted."""
        if isinstance(fact, SubmittedJob):
            self._note(fact)

    def foretell(self, job: SubmittedJob) -> None:
        """Note a job, whose length this service does not foretell."""
        self._note(job)

    def _note(self, job: SubmittedJob) -> None:
        own = self._arrivals.setdefault(job.team, TeamArrivals())
        own.add(job.submitted_s, job.gpus)
        own.forget(job.submitted_s - DAY_S * self.options.days)

    def foresight(self, now: float) -> Foresight:
        return RecentLoad(self._arrivals, now, self.options.recent)
