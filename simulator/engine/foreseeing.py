"""What policies are told of jobs to come, in a simulation: the truth, an estimate, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ...estimators.new_load import TeamArrivals
from ...policies.contract.foresight import ForeseenJob


class Foresees(StrEnum):
    """How new jobs of teams are foretold; the values are stable."""

    PERFECT = "perfect"  # as the trace has them
    LEARNED = "learned"  # what the service `team_load` foretells
    ALWAYS = "always"  # jobs always come, as many as of late
    RANDOM = "random"  # they come by the toss of a coin, as many as of late
    NOTHING = "nothing"  # none come


@dataclass(frozen=True, eq=False)
class SimulatedForesight:
    """Foresight at one moment. `draws`: gives numbers in [0, 1) for `RANDOM`. `known`: all jobs, for `PERFECT`."""

    arrivals: Mapping[str, TeamArrivals]
    foresees: Foresees
    now: float
    draws: np.random.Generator
    known: tuple[ForeseenJob, ...] = ()

    def jobs(self) -> tuple[ForeseenJob, ...] | None:
        return self.known if self.foresees is Foresees.PERFECT else None

    def new_load(self, team: str, horizon_s: float) -> float:
        own = self.arrivals.get(team)
        if own is None or self.foresees is Foresees.NOTHING:
            return 0.0
        if self.foresees is Foresees.PERFECT:
            return own.after(self.now, self.now + horizon_s)
        if self.foresees is Foresees.RANDOM and self.draws.random() < 0.5:
            return 0.0
        return own.estimate(self.now, horizon_s)


@dataclass(frozen=True, eq=False)
class ForesightSource:
    """Makes what policies are told at each moment. arrivals: of each team, over the whole trace."""

    arrivals: Mapping[str, TeamArrivals]
    foresees: Foresees
    draws: np.random.Generator
    known: tuple[ForeseenJob, ...] = ()

    def at(self, now: float) -> SimulatedForesight:
        return SimulatedForesight(self.arrivals, self.foresees, now, self.draws, self.known)
