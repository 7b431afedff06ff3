"""A file of teams -> `Teams`, with one sentence for what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from . import safe_yaml
from .errors import TeamsError
from .refused_values import why_refused
from .teams import Limits, Team, Teams

_KNOWN: dict[int, type[BaseModel]] = {
    0: Teams,
    2: Team,
    3: Limits,
}  # the fields at each depth of `teams.NAME.limits.FIELD`


class TeamsFileError(TeamsError):
    """A file of teams that is not accepted; one sentence with field, value and what is accepted."""


def read(data: bytes) -> Teams:
    """Return the teams of a file's content. Raises: TeamsFileError."""
    return from_values(values_of(data))


def values_of(data: bytes) -> dict[str, Any]:
    """Return the values in a file's content, of which only the form is checked. Raises: TeamsFileError."""
    try:
        return _mapping(safe_yaml.read(data))
    except safe_yaml.YamlProblem as error:
        raise TeamsFileError(safe_yaml.told(error, "file of teams")) from None


def _mapping(values: object) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise TeamsFileError("it is not a mapping of fields, such as teams: {vision: {users: [ada]}}")
    return values


def from_values(values: object) -> Teams:
    """Return the teams of the values in a file. Raises: TeamsFileError."""
    values = _mapping(values)
    try:
        return Teams.model_validate(values)
    except ValidationError as error:
        raise TeamsFileError(_sentence(error)) from None


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"] if part != "[key]"]
    field = ".".join(path)
    if first["type"] == "extra_forbidden":
        at = 3 if path[:1] == ["user_limits"] else len(path) - 1
        return f"{field}: unknown field; known: {', '.join(_KNOWN[at].model_fields)}"
    return f"{field}: {why_refused(first)}" if field and first["type"] != "value_error" else _own(field, first)


def _own(field: str, first: Mapping[str, Any]) -> str:  # our own rules name the field below theirs
    why = why_refused(first)
    return f"{field}.{why}" if field and ": " in why else f"{field}: {why}" if field else why
