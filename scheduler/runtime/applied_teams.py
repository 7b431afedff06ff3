"""The file of teams that counts now. It lasts over restarts."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ...core.cluster import Cluster
from ...core.errors import TeamsError
from ...core.events import EventKind
from ...core.teams import Teams, misfits
from ...core.teams_change import differences, version_of
from ...core.teams_file import from_values
from ...core.templates import problem_of
from ..store import audit
from ..store.events import Event
from ..store.store import Store

log = logging.getLogger(__name__)

FACT = "teams"


class AppliedTeams:
    """The teams of one store. `now`: None where no file is applied, or one without anything in it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.now: Teams | None = _read(store)

    def of_user(self, user: str) -> tuple[str, ...]:
        """Return the names of the teams that a user is in."""
        return () if self.now is None else self.now.teams_of(user)

    def wanted(self, values: object, cluster: Cluster | None) -> tuple[Teams, list[str]]:
        """Return the teams of a file's values, and why they cannot be applied, a sentence each.

        Args:
            cluster: all nodes, also those that sleep; None: they are not known yet.

        Raises: TeamsError for a file that cannot be read.
        """
        teams = from_values(values)
        refused = [
            f"teams.{name}.template.{why}"
            for name, team in teams.teams.items()
            if (why := problem_of(team.template))
        ]
        return teams, refused if cluster is None else [*refused, *misfits(teams, cluster)]

    def apply(self, teams: Teams, who: str, now: float) -> list[str]:
        """Store other teams, then let them count. Return what that changes, a line each.

        Raises: StoreFailure; nothing has changed then.
        """
        lines = differences(self.now, teams)
        if not lines:
            return []
        names = {"before": sorted(self.now.teams) if self.now else [], "after": sorted(teams.teams)}
        audit.tell(
            {"teams": names["before"], "version": version_of(self.now)},
            {"teams": names["after"], "version": version_of(teams), "changes": lines[:50]},
        )
        told = "; ".join(lines[:20]) + (f"; and {len(lines) - 20} more" if len(lines) > 20 else "")
        with self._store.together():
            self._store.write_fact(FACT, teams.model_dump_json())
            self._store.log(Event(EventKind.TEAMS, now, None, {"text": told}, cause="teams apply", who=who))
        self.now = _or_none(teams)
        return lines


def left_alone(teams: Teams, named: Iterable[str | None]) -> list[str]:
    """Return what becomes of jobs whose team is not among these, a sentence for each such team.

    Args:
        named: the team of each active job; None: it has none.
    """
    counts = Counter(name for name in named if name is not None)
    to = "under no team" if teams.default is None else f"for team {teams.default}"
    return [
        f"team {name} is removed, and its {count} job{'s go' if count > 1 else ' goes'} on {to}"
        for name, count in sorted(counts.items())
        if name not in teams.teams
    ]


def view_of(teams: Teams | None, only: Iterable[str] | None) -> dict[str, Any]:
    """Return teams as they are shown. `only`: the teams whose users and templates are told; None: those of all."""
    document = (teams or Teams()).model_dump(mode="json")
    shown = set(document["teams"]) if only is None else set(only)
    for name, team in document["teams"].items():
        if name not in shown:
            team |= {"users": [], "template": {}}
    return {**document, "version": version_of(teams)}


def _or_none(teams: Teams) -> Teams | None:
    return None if teams == Teams() else teams


def _read(store: Store) -> Teams | None:
    """Return the teams that are stored. What a later version wrote and this one refuses counts as none."""
    if (text := store.read_fact(FACT)) is None:
        return None
    try:
        return _or_none(Teams.model_validate_json(text, extra="ignore"))
    except (ValueError, TeamsError) as error:
        log.error("the file of teams that was applied cannot be read: %s", error)
        return None
