"""The teams of a round that is one program: what they weigh, what is left of their terms, and how they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core.placement import Placement
from ...optimizer.allocation import ChoiceProgram, ChoiceSolution
from ...optimizer.allocation.options import Floats
from ..contract.configuration import ConfigurationSet
from ..contract.round import JobView
from ..contract.sharing import Sharing, Standing, standings, used_by_teams
from ..sharing.team_prices import TeamPrices, TeamsOf, TeamSolution


@dataclass(frozen=True, eq=False)
class RoundTeams:
    """The teams of a round on the GPU types of its configurations.

    names: the teams, in the order of all arrays.
    cap, guarantee: (teams, types) what is left beside jobs that are not in the program; infinity for no cap.
    """

    sharing: Sharing
    configurations: ConfigurationSet
    names: tuple[str, ...]
    cap: Floats
    guarantee: Floats
    now: float

    @classmethod
    def of(
        cls, sharing: Sharing, configurations: ConfigurationSet, held: Mapping[str, Placement], now: float
    ) -> RoundTeams:
        """Return the teams of a round in which some jobs keep what they hold."""
        names, types = tuple(sorted(sharing.terms)), configurations.arrays.gpu_types
        used = used_by_teams(sharing, held)
        taken = np.array([[used.get((name, t), 0) for t in types] for name in names], float)
        cap = [[sharing.terms[name].cap.get(t, np.inf) for t in types] for name in names]
        promised = [[sharing.terms[name].guarantee.get(t, 0) for t in types] for name in names]
        shape = len(names), len(types)
        taken = taken.reshape(shape)
        return cls(
            sharing,
            configurations,
            names,
            np.maximum(np.array(cap, float).reshape(shape) - taken, 0.0),
            np.maximum(np.array(promised, float).reshape(shape) - taken, 0.0),
            now,
        )

    def factors(self, jobs: Sequence[JobView]) -> Floats:
        """Return (jobs,) what the progress of each job is worth beside that of others."""
        return np.array([self.sharing.factor.get(job.id, 1.0) for job in jobs])

    def solve(
        self,
        prices: TeamPrices,
        program: ChoiceProgram,
        ids: Sequence[str],
        free: ChoiceSolution,
        gap: float,
        time_limit_s: float,
    ) -> TeamSolution:
        """Return the plan with the terms of teams. `free` is the program's solution without them."""
        place = {name: i for i, name in enumerate(self.names)}
        team = np.array([place.get(self.sharing.team.get(id, ""), -1) for id in ids], np.int64)
        leased = np.array([self.sharing.is_leased(id, self.now) for id in ids], bool)
        arrays = self.configurations.arrays
        of = TeamsOf(team, leased, arrays.type_index, arrays.gpus.astype(float), self.cap, self.guarantee)
        return prices.solve(program, ids, free, of, gap, time_limit_s)

    def costs(self, job: str, found: TeamSolution) -> Floats:
        """Return (configurations,) what each costs a job beyond the market's prices, by its team."""
        arrays = self.configurations.arrays
        team = self.sharing.team.get(job)
        if team not in self.names:
            return np.zeros(len(arrays.gpus))
        at = self.names.index(team)
        each = found.over[at] - found.under[at]
        return np.asarray(each[arrays.type_index] * arrays.gpus)

    def stand(
        self, found: TeamSolution, placements: Mapping[str, Placement], prices: Mapping[str, float]
    ) -> dict[str, dict[str, Standing]]:
        """Return how teams stand after the round, by team and GPU type."""
        types = self.configurations.arrays.gpu_types
        place, column = {name: i for i, name in enumerate(self.names)}, {t: i for i, t in enumerate(types)}
        known = standings(self.sharing, used_by_teams(self.sharing, placements), types)
        return {
            team: {
                t: replace(
                    one,
                    asked=round(float(found.asked[place[team], column[t]])),
                    price=prices.get(t, 0.0),
                    over=float(found.over[place[team], column[t]]),
                    under=float(found.under[place[team], column[t]]),
                )
                for t, one in by_type.items()
            }
            for team, by_type in known.items()
        }

    def within_cap(self, job: str, placements: Mapping[str, Placement], placement: Placement) -> bool:
        """Return whether a job may have GPUs beside all placements."""
        team = self.sharing.team.get(job)
        most = None if team is None else self.sharing.terms[team].cap.get(placement.gpu_type)
        if team is None or most is None:
            return True
        used = used_by_teams(self.sharing, placements).get((team, placement.gpu_type), 0)
        return used + placement.gpus <= most
