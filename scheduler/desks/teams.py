"""Shows teams, and lets an operator apply another file of them while the scheduler runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.cluster import Cluster
from ...core.errors import TeamsError
from ...core.identity import Reader
from ...core.teams_change import differences, version_of
from ..cycle import SchedulingCycle
from ..nodes.node_source import NodeSource
from ..runtime.applied_teams import AppliedTeams, left_alone, view_of
from ..runtime.clock import Clock
from ..runtime.degraded import StoreWatch
from ..store.store import Store


class TeamsDesk:
    """Answers for teams. All parts hold the one object in which a change stands."""

    def __init__(
        self,
        teams: AppliedTeams,
        store: Store,
        cycle: SchedulingCycle,
        nodes: NodeSource,
        clock: Clock,
        watch: StoreWatch,
    ) -> None:
        self._teams, self._store, self._cycle = teams, store, cycle
        self._nodes, self._clock, self._watch = nodes, clock, watch

    def teams(self, reader: Reader | None = None) -> dict[str, Any]:
        """Return `core.schemas.TeamsView`; `reader`: without users and templates of others' teams."""
        return view_of(self._teams.now, None if reader is None else reader.teams)

    def would_apply(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a `core.schemas.TeamsChange` of what a file would change. Raises: TeamsError."""
        teams, refused = self._teams.wanted(values, self._cluster())
        return {
            "changes": differences(self._teams.now, teams),
            "notes": left_alone(teams, [job.spec.team for job in self._store.unretired.values() if job.active]),
            "refused": refused,
            "version": version_of(self._teams.now),
        }

    def apply_teams(self, values: Mapping[str, Any], version: str | None = None, who: str = "") -> dict[str, Any]:
        """Let other teams count from the next round on; return a `core.schemas.TeamsChange`.

        Args:
            version: of the teams that the file was compared with; None: of any.

        Raises: TeamsError, in one sentence; StateError where nothing can be stored now.
        """
        with self._watch.storing(), self._cycle.lock:
            found = self.would_apply(values)
            if found["refused"]:
                raise TeamsError(found["refused"][0])
            if found["changes"] and version not in (None, found["version"]):
                raise TeamsError("the teams have changed since this file was compared with them; look again")
            teams, _ = self._teams.wanted(values, None)
            self._teams.apply(teams, who, self._clock.steady_s())
        self._cycle.ask_round()
        return found | {"version": version_of(self._teams.now)}

    def _cluster(self) -> Cluster | None:
        """Return all nodes, also those that sleep; None until Ray has named them."""
        nodes = self._nodes.snapshot
        return Cluster((*nodes.cluster.nodes, *(one.node for one in nodes.asleep))) if nodes.ready else None
