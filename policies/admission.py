"""The terms of teams for jobs of a fixed size: caps block, guarantees go first, and a reclaim stops borrowers.

A job is *within* its team's guarantee on a GPU type if the team has no more than it there, with the job. Any other
job borrows. A reclaim stops borrowers that may be stopped and whose leases are over, the last of the order first.
While a guarantee waits for the end of leases, nobody borrows more GPUs of its type.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..core.decisions import Refused, Waiting, WaitReason
from ..core.placement import Placement
from .choosing.decided import QueueReasons, decisions_of
from .contract.round import Plan, Round
from .contract.sharing import Sharing, Standing, standings, used_by_teams
from .placing.ledger import Ledger, is_pinned
from .placing.rooms import all_nodes, ledger_of, room, startable


class Counts:
    """The GPUs of each team, by GPU type, while a plan is made. A job without a team always borrows."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._used: defaultdict[tuple[str, str], int] = defaultdict(int)

    def add(self, job: str, gpu_type: str, gpus: int) -> None:
        """Count GPUs that a job gets; fewer than 0: that it gives back."""
        self._used[self._sharing.team.get(job, ""), gpu_type] += gpus

    def is_within(self, job: str, gpu_type: str, gpus: int) -> bool:
        """Return whether so many GPUs more are within the guarantee of a job's team."""
        team = self._sharing.team.get(job)
        if team is None:
            return False
        return self._used[team, gpu_type] + gpus <= self._sharing.terms[team].guarantee.get(gpu_type, 0)

    def may_be_within(self, job: str, gpus: int) -> bool:
        """Return whether so many GPUs more of any type are within the guarantee of a job's team."""
        return any(self.is_within(job, t, gpus) for t in self._sharing.terms[self._sharing.team[job]].guarantee)

    def is_allowed(self, job: str, gpu_type: str, gpus: int) -> bool:
        """Return whether so many GPUs more are within the cap of a job's team."""
        team = self._sharing.team.get(job)
        most = None if team is None else self._sharing.terms[team].cap.get(gpu_type)
        return team is None or most is None or self._used[team, gpu_type] + gpus <= most

    def borrowed(self, job: str, gpu_type: str) -> int:
        """Return the GPUs of a type that a job's team has beyond its guarantee."""
        team = self._sharing.team.get(job, "")
        promised = self._sharing.terms[team].guarantee.get(gpu_type, 0) if team in self._sharing.terms else 0
        return max(self._used[team, gpu_type] - promised, 0)


@dataclass
class _Made:
    """What a plan with teams gives, and why jobs wait. kept: GPU types on which a guarantee waits."""

    ledger: Ledger
    counts: Counts
    tried: np.ndarray
    capped: set[int]
    kept: set[str]
    waits: set[int]

    def give(self, round: Round, i: int, placement: Placement) -> None:
        id = round.columns.ids[i]
        self.ledger.take(id, placement)
        self.counts.add(id, placement.gpu_type, placement.gpus)


def starting(round: Round, sharing: Sharing, order: np.ndarray, *, type_blind: bool, overtakes: bool) -> Plan:
    """Start waiting jobs in `order`: those within guarantees first, by a reclaim if need be, then borrowers.

    Nothing else is stopped.

    Args:
        overtakes: whether a borrower may start before one that finds no room.
    """
    columns = round.columns
    made = _begun(round, sharing, ledger_of(round, np.flatnonzero(columns.held > 0)), len(order))
    waiting = [i for i in order.tolist() if columns.ids[i] not in made.ledger.held]
    rank = {int(i): place for place, i in enumerate(order.tolist())}
    blocked: set[str] = set()
    for i in waiting:
        id, gpus = columns.ids[i], int(columns.gpus[i])
        if (team := sharing.team.get(id)) is None or team in blocked or not made.counts.may_be_within(id, gpus):
            continue
        types = [t for t in startable(round, i, round.cluster, type_blind) if made.counts.is_within(id, t, gpus)]
        if not types:
            continue
        made.tried[i] = True
        found = room(made.ledger, round, i, type_blind, types)
        found = found or _reclaimed(round, sharing, made, i, types, rank, type_blind)
        if found is not None:
            made.give(round, i, found)
        elif room(Ledger(all_nodes(round)), round, i, type_blind, types) is not None:
            blocked.add(team)
            made.kept.update(types)
            made.waits.add(i)
    empty = Ledger(all_nodes(round))
    for i in waiting:
        id, gpus = columns.ids[i], int(columns.gpus[i])
        if id in made.ledger.held or i in made.waits:
            continue
        could = startable(round, i, round.cluster, type_blind)
        types = [t for t in could if made.counts.is_allowed(id, t, gpus)]
        if could and not types:
            made.capped.add(i)
            continue
        made.tried[i] = True
        free = [t for t in types if t not in made.kept]
        found = room(made.ledger, round, i, type_blind, free)
        if found is not None:
            made.give(round, i, found)
        elif not overtakes and free and room(empty, round, i, type_blind, types) is not None:
            break
    return _served(round, sharing, made, order)


def _begun(round: Round, sharing: Sharing, ledger: Ledger, count: int) -> _Made:
    counts = Counts(sharing)
    for id, placement in ledger.held.items():
        counts.add(id, placement.gpu_type, placement.gpus)
    return _Made(ledger, counts, np.zeros(count, bool), set(), set(), set())


def _reclaimed(
    round: Round,
    sharing: Sharing,
    made: _Made,
    i: int,
    types: Collection[str],
    rank: Mapping[int, int],
    type_blind: bool,
) -> Placement | None:
    """Stop as few borrowers as make room for a job within its guarantee. Return the room; None: that is none."""
    columns, ledger, counts = round.columns, made.ledger, made.counts
    position = {id: k for k, id in enumerate(columns.ids.tolist())}
    for gpu_type in types:
        could = [
            id
            for id, placement in ledger.held.items()
            if placement.gpu_type == gpu_type
            and columns.placements[position[id]] is placement
            and columns.preemptible[position[id]]
            and not sharing.is_leased(id, round.now)
            and counts.borrowed(id, gpu_type)
        ]
        # Jobs that their teams borrowed whole, and that are no larger than what is asked for, come first.
        asks = int(columns.gpus[i])
        sizes = {id: ledger.held[id].gpus for id in could}
        whole = {id: sizes[id] <= counts.borrowed(id, gpu_type) for id in could}
        could.sort(key=lambda id: (not whole[id], sizes[id] > asks, -rank[position[id]]))
        stopped: dict[str, Placement] = {}
        found: Placement | None = None
        for id in could:
            if not counts.borrowed(id, gpu_type):  # its team gave enough
                continue
            stopped[id] = ledger.give_back(id)
            counts.add(id, gpu_type, -stopped[id].gpus)
            if (found := room(ledger, round, i, type_blind, [gpu_type])) is not None:
                break
        back = list(stopped)[-2::-1] if found is not None else list(stopped)
        for id in back:  # not all of them may have been in the way
            ledger.take(id, stopped[id])
            counts.add(id, gpu_type, stopped[id].gpus)
            if found is not None and (again := room(ledger, round, i, type_blind, [gpu_type])) is None:
                ledger.give_back(id)
                counts.add(id, gpu_type, -stopped[id].gpus)
            elif found is not None:
                found = again
        if found is not None:
            return room(ledger, round, i, type_blind, [gpu_type])
    return None


def choosing(round: Round, sharing: Sharing, order: np.ndarray, alone: Plan, *, type_blind: bool) -> Plan:
    """Run the jobs that come first in `order`, those within guarantees before all others, and stop the rest.

    Args:
        alone: the plan of the same order without teams. A job under lease that it keeps is kept.
    """
    columns, budget = round.columns, dict(round.cluster.capacity())
    ledger = ledger_of(round, np.flatnonzero(columns.held > 0))
    counts, chosen = Counts(sharing), dict[int, str]()

    def choose(i: int, types: Collection[str]) -> bool:
        gpus = int(columns.gpus[i]) if columns.ids[i] not in ledger.held else ledger.held[columns.ids[i]].gpus
        for t in types:
            if budget[t] >= gpus:
                budget[t] -= gpus
                counts.add(columns.ids[i], t, gpus)
                chosen[i] = t
                return True
        return False

    def could(i: int) -> list[str]:
        held = ledger.held.get(columns.ids[i])
        return startable(round, i, round.cluster, type_blind) if held is None else [held.gpu_type]

    places, capped, kept = order.tolist(), set[int](), set[str]()
    for i in places:
        if columns.ids[i] not in ledger.held:
            continue
        job = round.jobs[i]
        pinned = job.placement is not None and is_pinned(job, round.cluster)
        leased = sharing.is_leased(job.id, round.now) and alone.placements.get(job.id) == job.placement
        if pinned or leased:
            choose(i, could(i))
    waits: set[int] = set()
    for i in places:
        if i not in chosen:
            id, gpus = columns.ids[i], int(columns.gpus[i])
            types = [t for t in could(i) if counts.is_within(id, t, gpus)]
            if types and not choose(i, types):
                kept.update(types)
                waits.add(i)
    for i in places:
        if i not in chosen and i not in waits:
            id, gpus = columns.ids[i], int(columns.gpus[i])
            may = could(i)
            types = [t for t in may if counts.is_allowed(id, t, gpus)]
            if may and not types:
                capped.add(i)
            else:
                choose(i, [t for t in types if t not in kept])
    runs = np.array([i for i in chosen if columns.ids[i] in ledger.held], np.int64)
    made = _begun(round, sharing, ledger_of(round, runs), len(order))
    made.capped, made.kept, made.waits = capped, kept, waits
    made.tried[list(chosen)] = True
    for i in places:
        if i in chosen and columns.ids[i] not in made.ledger.held:
            found = room(made.ledger, round, i, type_blind, [chosen[i]])
            if found is not None:
                made.give(round, i, found)
    return _served(round, sharing, made, order)


def _served(round: Round, sharing: Sharing, made: _Made, order: np.ndarray) -> Plan:
    placements = dict(made.ledger.held)
    known = standings(sharing, used_by_teams(sharing, placements), round.cluster.gpu_types)
    asked: defaultdict[tuple[str, str], int] = defaultdict(int)
    for i in made.waits:
        types = startable(round, i, round.cluster, False)
        asked[sharing.team[round.columns.ids[i]], types[0]] += int(round.columns.gpus[i])
    teams = {
        team: {t: replace(one, asked=min(one.used, one.guarantee) + asked[team, t]) for t, one in by_type.items()}
        for team, by_type in known.items()
    }
    queue = QueueReasons(round, placements, order, made.tried, len(round.cluster.gpu_types) > 1)
    reasons = _Reasons(queue, sharing, teams, frozenset(made.capped), frozenset(made.kept))
    return Plan(placements, decisions=decisions_of(round, placements, reasons.why), order=order, teams=teams)


@dataclass(frozen=True, eq=False)
class _Reasons:
    """Tells why jobs wait, where a cap or a guarantee is why; else the queue's own reason."""

    queue: QueueReasons
    sharing: Sharing
    teams: Mapping[str, Mapping[str, Standing]]
    capped: Collection[int]
    kept: Collection[str]

    @cached_property
    def _ids(self) -> list[str]:
        return list(self.queue.round.columns.ids.tolist())

    def why(self, i: int) -> Waiting | Refused:
        round, id = self.queue.round, self._ids[i]
        team = self.sharing.team.get(id, "")
        if i in self.capped:
            t = startable(round, i, round.cluster, False)[0]
            gpus = int(round.columns.gpus[i])
            most = self.sharing.terms[team].cap[t]
            has = self.teams[team][t].used
            detail = f"Its team {team} has {has} {t} of its cap of {most}, and the job asks for {gpus}."
            return Waiting(WaitReason.TEAM_CAP, detail)
        found = self.queue.why(i)
        if not isinstance(found, Waiting) or not self.kept:
            return found
        if found.reason in (WaitReason.NO_ROOM, WaitReason.BEHIND_OTHERS, WaitReason.FRAGMENTED):
            types = ", ".join(sorted(self.kept))
            detail = f"Guarantees of {types} are asked for, until the leases of borrowers end."
            return Waiting(WaitReason.KEPT_FOR_TEAMS, detail)
        return found
