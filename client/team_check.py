"""What teams would make of a job that is submitted, as far as a client can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.job import JobSpec
from ..core.job_limits import JobLimitError
from ..core.schemas import TeamsView
from ..core.team_rules import completed
from ..core.teams import Teams


@dataclass(frozen=True)
class TeamCheck:
    """A job with what teams make of it, why they would refuse it, and what a person is told."""

    spec: JobSpec
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def also(self, refused: Sequence[str] = (), notes: Sequence[str] = ()) -> TeamCheck:
        """Return it with more sentences."""
        return TeamCheck(self.spec, (*self.refused, *refused), (*self.notes, *notes))


def with_team(spec: JobSpec, user: str, view: TeamsView) -> TeamCheck:
    """Return what would become of a job of a user."""
    teams = Teams.model_validate(view, extra="ignore")
    if not teams.teams:
        told = (f"team: {spec.team} counts for nothing, as this cluster has no teams",) if spec.team else ()
        return TeamCheck(spec, notes=told)
    try:
        found = completed(spec, user, teams)
    except JobLimitError as error:
        return TeamCheck(spec, refused=error.problems)
    name, priority = found.spec.team, found.spec.priority
    notes = [f"it counts for team {name}, with the priority {priority}"]
    if found.from_template:
        notes.append(f"the template of {name} gives {', '.join(found.from_template)}")
    return TeamCheck(found.spec, notes=tuple(notes))
