"""Tells what teams have of each GPU type now."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...core.identity import Reader
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
        for job in tuple(self._store.unretired.values()):
            team = None if now is None or not job.active else now.counted_for(job.spec.team)
            if team is not None:
                _count(found[team], job, told=reader is None or team in reader.teams)
        gpus: Counter[str] = Counter()
        nodes = self._nodes.snapshot
        for node in (*nodes.cluster.nodes, *nodes.closed_nodes, *(one.node for one in nodes.asleep)):
            gpus[kind_of(node.gpu_type, node.pool)] += node.gpus
        return {"teams": found, "gpus": dict(gpus)}


def _nothing() -> TeamNow:
    return {"gpus": {}, "running": 0, "waiting": 0, "users": {}}


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
