"""What a user's teams make of a job at its submission: its team, its priority, what a template fills in. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from .job import JobSpec
from .job_limits import JobLimitError
from .refused_values import why_refused
from .teams import Priority, Team, Teams
from .templates import filled, taken


@dataclass(frozen=True)
class Completed:
    """A job as it is submitted. `from_template`: names of the fields that its team's template has filled in."""

    spec: JobSpec
    from_template: tuple[str, ...] = ()


def completed(given: JobSpec, user: str, teams: Teams | None) -> Completed:
    """Return a job with its team, its priority and what that team's template fills in.

    Where no teams are applied it stays as it is, but for a team, of which nobody knows there.

    Args:
        given: what the user wrote; its fields that are not set are those that were left out.

    Raises: JobLimitError, in one sentence.
    """
    if teams is None or not teams.teams:
        return Completed(given if given.team is None else given.model_copy(update={"team": None}))
    name = _team(given, user, teams)
    team, written = teams.teams[name], given.model_dump(mode="json", exclude_unset=True)
    fields = taken(written, team.template)
    spec = given
    if fields:
        try:
            spec = JobSpec.model_validate(filled(written, team.template))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"])
            told = f"{field}: {why_refused(first)}" if field else why_refused(first)
            raise JobLimitError([f"team: the template of {name} does not fit this job: {told}"]) from None
    return Completed(
        spec.model_copy(update={"team": name, "priority": _priority(spec.priority, name, team)}), tuple(fields)
    )


def check_priority(wanted: Priority, named: str | None, teams: Teams | None) -> None:
    """Refuse a priority that a job of a team may not have. Raises: JobLimitError."""
    if teams is not None and (name := teams.counted_for(named)) is not None:
        _priority(wanted, name, teams.teams[name])


def _team(given: JobSpec, user: str, teams: Teams) -> str:
    own = teams.teams_of(user)
    who = user or "a user without a name"
    if not own:
        raise JobLimitError([f"team: {who} is in no team, and no team is the default one; ask an operator"])
    if given.team is not None and given.team not in own:
        raise JobLimitError([f"team: {given.team} is no team of {who}; accepted: {', '.join(own)}"])
    return given.team or own[0]


def _priority(wanted: Priority | None, name: str, team: Team) -> Priority:
    allowed = [one for one in Priority if one in team.priorities]
    if wanted is None:
        return Priority.NORMAL if Priority.NORMAL in allowed else allowed[0]
    if wanted not in allowed:
        told = f"priority: {wanted} is none that jobs of team {name} may have; accepted: {', '.join(allowed)}"
        raise JobLimitError([told])
    return wanted
