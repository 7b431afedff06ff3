"""Tells what teams have of each GPU type now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.identity import Reader
from ...core.lent import NOBODY, lenders, lent_by_team
from ...core.schemas import TeamNow
from ...core.teams import kind_of
from ..changes.status import Status, status_of
from ..jobs.record import JobRecord
from ..nodes.node_source import NodeSource
from ..runtime.applied_teams import AppliedTeams
from ..store.store import Store

WAITS = (Status.WAITING, Status.EVICTED)


class TeamBoardDesk:
    """Answers for what jobs of teams hold. It changes nothing."""

    def __init__(self, teams: AppliedTeams, store: Store, nodes: NodeSource) -> None:
        self._teams, self._store, self._nodes = teams, store, nodes

    def team_names(self) -> list[str]:
        """Return the names of all teams; [] where no teams share the cluster."""
        return [] if self._teams.now is None else list(self._teams.now.teams)

    def team_board(self, reader: Reader | None = None) -> dict[str, Any]:
        """Return what each team has now, and how many GPUs there are.

        `teams`: a `core.schemas.TeamNow` by name. `gpus`: of the whole cluster, also of closed
        nodes, where jobs may train still; by GPU type as a100@lab.

        Args:
            reader: of teams of others, without who waits and which user has what.
        """
        now = self._teams.now
        found: dict[str, TeamNow] = {} if now is None else {name: _nothing() for name in now.teams}
        beyond: dict[str, list[tuple[str, str, int]]] = {}  # by kind: id, team and GPUs of who borrows
        for job in tuple(self._store.unretired.values()):
            team = None if now is None or not job.active else now.counted_for(job.spec.team)
            if team is not None:
                _count(found[team], job, told=reader is None or team in reader.teams)
            if job.active and job.placement is not None and (team is None or job.borrows):
                kind = kind_of(job.placement.gpu_type, job.spec.pool)
                beyond.setdefault(kind, []).append((job.id, team or NOBODY, job.placement.gpus))
        gpus: Counter[str] = Counter()
        nodes = self._nodes.snapshot
        for node in (*nodes.cluster.nodes, *nodes.closed_nodes, *(one.node for one in nodes.asleep)):
            gpus[kind_of(node.gpu_type, node.pool)] += node.gpus
        for kind, count in gpus.items():
            guarantee = (
                {} if now is None else {name: team.guarantee.get(kind, 0) for name, team in now.teams.items()}
            )
            _lend(found, guarantee, kind, count, beyond.get(kind, ()))
        return {"teams": found, "gpus": dict(gpus)}


def _nothing() -> TeamNow:
    return {"gpus": {}, "borrowed": {}, "lent": {}, "running": 0, "waiting": 0, "users": {}}


def _lend(
    teams: Mapping[str, TeamNow],
    guarantee: Mapping[str, int],
    kind: str,
    gpus: int,
    beyond: Sequence[tuple[str, str, int]],
) -> None:
    """Add what teams borrow and lend of the GPUs of a kind. What a team has beyond its guarantee is borrowed.

    Args:
        gpus: how many of the kind there are.
        beyond: id, team and GPUs of jobs of no team and of those that their policy counts as borrowers.
    """
    borrowers = list(beyond)
    unused = {NOBODY: max(gpus - sum(guarantee.values()), 0)}
    for name, team in teams.items():
        marked = sum(held for _, of, held in borrowers if of == name)
        own = team["gpus"].get(kind, 0) - marked
        more = max(own - guarantee[name], 0)
        unused[name] = max(guarantee[name] - own, 0)
        if more:
            borrowers.append((name, name, more))  # no job of the team is marked, or these are not enough
        if marked + more:
            team["borrowed"][kind] = marked + more
    for name, lent in lent_by_team(lenders(unused, borrowers)).items():
        teams[name]["lent"][kind] = lent


def _count(team: TeamNow, job: JobRecord, *, told: bool) -> None:
    """Add what a job has. Caps and guarantees count it where it is placed, as this does."""
    placement = job.placement
    if placement is not None:
        kind = kind_of(placement.gpu_type, job.spec.pool)
        team["running"] += 1
        team["gpus"][kind] = team["gpus"].get(kind, 0) + placement.gpus
        if told:
            mine = team["users"].setdefault(job.owner, {})
            mine[kind] = mine.get(kind, 0) + placement.gpus
    elif told and status_of(job) in WAITS:
        team["waiting"] += 1
