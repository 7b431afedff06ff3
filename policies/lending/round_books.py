"""A round as books of teams, one per GPU type, and what a decision makes of it. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...core.job import JobSpec
from ...core.lent import NOBODY
from ...core.placement import Placement
from ..contract.round import Round
from ..contract.sharing import Sharing
from ..placing.cells import cells_of, levels_of
from ..placing.demand import Demand
from ..placing.ledger import Ledger, exists
from ..placing.rooms import startable
from ..placing.spread import anywhere, on_nodes
from .book import Book, Pool, Running, Start, Waiting
from .ground import Ground, fits_at_all, homes_of

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


@dataclass
class Homes:
    """The GPU type on which each job is dedicated (None: no type), from one round to the next.

    cells, nodes: of teams, by GPU type and team.
    """

    cells: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict)
    nodes: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)
    _of: dict[str, tuple[JobSpec | None, str | None]] = field(default_factory=dict)
    _under: object = None

    def begin(self, round: Round, quotas: Mapping[str, Mapping[str, int]]) -> None:
        """Forget all if nodes or guarantees are others than before, or speeds may be, which order types."""
        under = round.cluster, quotas
        if self._under != under or not (round.columns.exact or len(quotas) == 1):
            self._of, self.cells, self.nodes, self._under = {}, {}, {}, under

    def of(self, round: Round, i: int, id: str, find: Callable[[int], str | None]) -> str | None:
        """Return the type of the job at a position; it is found anew if what its user asks for has changed.

        Where lengths are known exactly nothing about a job changes.
        """
        spec = None if round.columns.exact else round.jobs[i].spec
        known = self._of.get(id)
        if known is None or known[0] is not spec:
            known = self._of[id] = (spec, find(i))
        return known[1]


@dataclass(frozen=True, eq=False)
class RoundBooks:
    """The teams of a round by GPU type.

    A job is dedicated on the fastest type of which its team is guaranteed as many GPUs as it asks for. One that is
    guaranteed so many of no type is in no book: it can never have a turn.

    stops: whether borrowers that are preemptible may be stopped.
    homes: of jobs of earlier rounds.
    in_cells: whether quotas are cells of nodes.
    """

    round: Round
    stops: bool
    homes: Homes = field(default_factory=lambda: Homes())
    in_cells: bool = False
    books: Mapping[str, Book] = field(init=False)
    home: Mapping[int, str] = field(init=False)
    held: dict[str, Placement] = field(default_factory=dict, init=False)  # by id, where the nodes are still there
    _rooms: dict[tuple[object, ...], bool] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        round, columns = self.round, self.round.columns
        quotas = quotas_of(round)
        self.homes.begin(round, quotas)
        pools = {(t, team): Pool(team, quota) for t, of in quotas.items() for team, quota in of.items()}
        home: dict[int, str] = {}
        low_s, high_s = self.bounds_s
        stoppable = (columns.preemptible & self.stops).tolist()
        borrows = [False] * len(low_s) if columns.borrows is None else columns.borrows.tolist()

        def find(i: int) -> str | None:
            gpus, team = int(columns.gpus[i]), self.team_of(columns.ids[i])
            for t in startable(round, i, round.cluster, False):
                if quotas[t].get(team, 0) >= gpus and self._has_room(i, t) and self._has_cells(t, team, gpus):
                    return t
            return None

        held, placements = columns.held.tolist(), columns.placements.tolist()
        for i, (id, gpus) in enumerate(zip(columns.ids.tolist(), columns.gpus.tolist(), strict=True)):
            team, placement = self.team_of(id), placements[i]
            if placement is not None and exists(placement, round.cluster):
                self.held[id] = placement
                t, has = placement.gpu_type, held[i]
                if (pool := pools.get((t, team))) is None:
                    pool = pools[t, team] = Pool(team, 0)
                left_s = high_s[i] if high_s[i] > 0 else math.inf  # one that takes longer than was foreseen stays
                runs = Running(i, has, low_s[i], left_s, stoppable[i])
                pool.runs(runs, borrows=borrows[i] or pool.used + has > pool.quota)
                home[i] = t
                continue
            if (own := self.homes.of(round, i, id, find)) is not None:
                home[i] = own
                pools[own, team].waiting.append(Waiting(i, gpus, low_s[i], high_s[i], stoppable[i]))
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

    def cells(self, gpu_type: str) -> dict[str, tuple[int, ...]]:
        """Return the cells of each team: as its terms say, else as large as nodes are."""
        if (known := self.homes.cells.get(gpu_type)) is not None:
            return known
        nodes = self.round.cluster.of_type(gpu_type)
        levels = levels_of(max((node.gpus for node in nodes), default=1))
        found, terms = {}, (self.round.sharing or NO_SHARING).terms
        for team, quota in quotas_of(self.round)[gpu_type].items():
            own = terms[team].cells.get(gpu_type) if team in terms else None
            found[team] = own or tuple(
                1 << level for level, count in enumerate(cells_of(quota, levels)) for _ in range(count)
            )
        self.homes.cells[gpu_type] = found
        return found

    def _has_cells(self, gpu_type: str, team: str, gpus: int) -> bool:
        return not self.in_cells or fits_at_all(self.cells(gpu_type).get(team, ()), gpus)

    def ground(self, gpu_type: str) -> Ground:
        """Return where quotas lie: the cells that dedicated jobs are in, and the nodes that borrowers are on."""
        nodes = {node.id: node.gpus for node in self.round.cluster.of_type(gpu_type)}
        book = self.books[gpu_type]
        cells = self.cells(gpu_type)
        if (homes := self.homes.nodes.get(gpu_type)) is None:
            homes = self.homes.nodes[gpu_type] = homes_of(nodes, cells)
        found = Ground(nodes, {pool.name: cells.get(pool.name, ()) for pool in book.pools}, homes)
        for pool in book.pools:
            dedicated = Counter[str]()
            for job in pool.dedicated:
                dedicated.update(self.on(job.at))
            found.hold(pool.name, dedicated)
        for job in book.borrowers:
            found.lend(self.on(job.at).items())
        return found

    def on(self, at: int) -> Mapping[str, int]:
        """Return the GPUs that a running job has, by node."""
        placement = self.round.columns.placements[at]
        return {} if placement is None else placement.by_node

    def placed(self, stops: Iterable[int], starts: Iterable[Start]) -> tuple[dict[str, Placement], frozenset[int]]:
        """Return where jobs are after a decision, and the positions of those that start and found no GPUs.

        A job lies where its start says, else together where there is room, else on any GPUs of its type.
        """
        columns, begin = self.round.columns, list(starts)
        ids = columns.ids.tolist()
        going = {ids[i] for i in stops}
        held = {id: placement for id, placement in self.held.items() if id not in going}
        if not begin:
            return held, frozenset()
        ledger, in_vain = Ledger.of(self.round.cluster, held), set[int]()
        for start in begin:
            i = start.at
            spec = self.round.jobs[i].spec
            if start.on:
                found = on_nodes(ledger, spec, start.on, self.home[i])
            else:
                found = anywhere(ledger, spec, int(columns.gpus[i]), self.home[i])
            if found is None:
                in_vain.add(i)
            else:
                ledger.take(ids[i], found)
        return dict(ledger.held), frozenset(in_vain)
