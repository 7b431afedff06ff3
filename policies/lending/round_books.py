"""A round as books of teams, one per GPU type, and what a decision makes of it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...core.lent import NOBODY
from ...core.placement import Placement
from ..contract.round import Round
from ..contract.sharing import Sharing
from ..placing.demand import Demand
from ..placing.ledger import Ledger, exists
from ..placing.rooms import startable
from ..placing.spread import anywhere
from .book import Book, Pool, Running, Start, Waiting

NO_TEAM = NOBODY  # jobs of no team have what is guaranteed to none
NO_SHARING = Sharing({}, {})


def team_of(round: Round, job: str) -> str:
    """Return the team of a job, and that of what a profile run measures; `NO_TEAM` if it has none."""
    sharing = round.sharing or NO_SHARING
    return sharing.team.get(job) or sharing.measured_for.get(job, NO_TEAM)


def quotas_of(round: Round) -> dict[str, dict[str, int]]:
    """Return GPU type -> team -> GPUs that it is guaranteed; the rest is of nobody's team."""
    found: dict[str, dict[str, int]] = {}
    for t, gpus in round.cluster.capacity().items():
        own = {team: terms.guarantee.get(t, 0) for team, terms in (round.sharing or NO_SHARING).terms.items()}
        found[t] = own | {NO_TEAM: max(gpus - sum(own.values()), 0)}
    return found


@dataclass(frozen=True, eq=False)
class RoundBooks:
    """The teams of a round by GPU type.

    A job is dedicated on the fastest type of which its team is guaranteed as many GPUs as it asks for. One that is
    guaranteed so many of no type is in no book: it can never have a turn.

    stops: whether borrowers that are preemptible may be stopped.
    """

    round: Round
    stops: bool
    books: Mapping[str, Book] = field(init=False)
    home: Mapping[int, str] = field(init=False)
    _rooms: dict[tuple[object, ...], bool] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        round, columns = self.round, self.round.columns
        quotas = quotas_of(round)
        pools = {
            (t, team): Pool(team, quota) for t, quotas_of in quotas.items() for team, quota in quotas_of.items()
        }
        home: dict[int, str] = {}
        low_s, high_s = self.bounds_s
        for i, id in enumerate(columns.ids.tolist()):
            team, gpus = self.team_of(id), int(columns.gpus[i])
            placement, stoppable = columns.placements[i], bool(self.stops and columns.preemptible[i])
            if placement is not None and exists(placement, round.cluster):
                t, held = placement.gpu_type, placement.gpus
                pool = pools.setdefault((t, team), Pool(team, 0))
                left_s = high_s[i] if high_s[i] > 0 else math.inf  # one that takes longer than was foreseen stays
                runs = Running(i, held, low_s[i], left_s, stoppable)
                borrows = columns.borrows is not None and bool(columns.borrows[i])
                (pool.borrowing if borrows or pool.used + held > pool.quota else pool.dedicated).append(runs)
                home[i] = t
                continue
            types = startable(round, i, round.cluster, False)
            own = next((t for t in types if quotas[t].get(team, 0) >= gpus and self._has_room(i, t)), None)
            if own is not None:
                home[i] = own
                pools[own, team].waiting.append(Waiting(i, gpus, low_s[i], high_s[i], stoppable))
        capacity = round.cluster.capacity()
        books = {
            t: Book.of([pool for (of, _), pool in sorted(pools.items()) if of == t], gpus)
            for t, gpus in capacity.items()
        }
        object.__setattr__(self, "books", books)
        object.__setattr__(self, "home", home)

    @cached_property
    def _idle(self) -> Ledger:
        return Ledger(self.round.cluster)

    def team_of(self, job: str) -> str:
        return team_of(self.round, job)

    @cached_property
    def bounds_s(self) -> tuple[list[float], list[float]]:
        """Return (jobs,) how long each job still takes at least and at most."""
        columns = self.round.columns
        if columns.exact:
            left = np.nan_to_num(columns.remaining_s, nan=np.inf).tolist()
            return [0.0 if value == np.inf else value for value in left], left
        expected = [job.expected for job in self.round.jobs]
        return [one.low_s for one in expected], [one.high_s for one in expected]

    def _has_room(self, i: int, gpu_type: str) -> bool:
        """Return whether a job has room on idle nodes, with what it asks for beside its GPUs."""
        spec, gpus = self.round.jobs[i].spec, int(self.round.columns.gpus[i])
        asked = (gpu_type, gpus, Demand.of(spec), spec.gpus_per_replica(gpu_type))
        if asked not in self._rooms:
            self._rooms[asked] = anywhere(self._idle, spec, gpus, gpu_type) is not None
        return self._rooms[asked]

    def placed(self, stops: Iterable[int], starts: Iterable[Start]) -> tuple[dict[str, Placement], frozenset[int]]:
        """Return where jobs are after a decision, and the positions of those that start and found no GPUs.

        A job lies together where there is room, else on any GPUs of its type.
        """
        columns, going = self.round.columns, set(stops)
        ids = columns.ids.tolist()
        held = {
            ids[i]: columns.placements[i]
            for i in np.flatnonzero(columns.held > 0).tolist()
            if i not in going and exists(columns.placements[i], self.round.cluster)
        }
        ledger, in_vain = Ledger.of(self.round.cluster, held), set[int]()
        for start in starts:
            i = start.at
            found = anywhere(ledger, self.round.jobs[i].spec, int(columns.gpus[i]), self.home[i])
            if found is None:
                in_vain.add(i)
            else:
                ledger.take(ids[i], found)
        return dict(ledger.held), frozenset(in_vain)
