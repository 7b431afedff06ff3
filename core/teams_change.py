"""What another file of teams would change, a line each for a person. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from .json_numbers import dumps
from .teams import Team, Teams

MOST_NAMED = 10  # users that a line names
_OF_ALL = ("lease_s", "half_life_h", "prices", "user_limits")


def version_of(teams: Teams | None) -> str:
    """Return a word that differs where anything in a file differs."""
    return hashlib.sha256((teams or Teams()).model_dump_json().encode()).hexdigest()[:16]


def differences(before: Teams | None, after: Teams) -> list[str]:
    """Return what a file changes: teams that come and go, and each field with its value before and after."""
    known = before or Teams()
    lines = [f"team {name} is removed" for name in known.teams if name not in after.teams]
    for name, team in after.teams.items():
        if (was := known.teams.get(name)) is None:
            lines.append(f"team {name} is new: {_summary(team)}")
        else:
            lines += [f"{name}.{line}" for line in _fields(was, team)]
    stay = [name for name in known.teams if name in after.teams]
    if stay != [name for name in after.teams if name in known.teams]:  # a user's first team is meant by default
        lines.append(f"teams: in another order: {', '.join(after.teams)}")
    for field in _OF_ALL:
        lines += _changed(field, getattr(known, field), getattr(after, field))
    return lines


def _summary(team: Team) -> str:
    count = len(team.users)
    parts = [f"{count} user{'s' * (count != 1)} ({_names(team.users)})" if count else "no users"]
    parts.append(f"share {team.share:g}")
    parts += [f"guarantee {_value(team.guarantee)}"] if team.guarantee else []
    parts += [f"cap {_value(team.cap)}"] if team.cap else []
    parts += ["the default team"] if team.default else []
    limits = {name: value for name, value in team.limits.model_dump().items() if value not in (None, {})}
    return ", ".join([*parts, *([f"limits {_value(limits)}"] if limits else [])])


def _fields(was: Team, now: Team) -> list[str]:
    lines = []
    for word, one, other in (("come", now, was), ("leave", was, now)):
        if names := [user for user in one.users if user not in other.users]:
            lines.append(f"users: {_names(names)} {word if len(names) > 1 else word + 's'}")
    if not lines and was.users != now.users:
        lines.append("users: in another order")
    for field in Team.model_fields:
        if field != "users":
            lines += _changed(field, getattr(was, field), getattr(now, field))
    return lines


def _changed(field: str, was: Any, now: Any) -> list[str]:
    """Return a line for a value that differs, and one for each key of mappings."""
    was, now = (one.model_dump() if hasattr(one, "model_dump") else one for one in (was, now))
    if was == now:
        return []
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        keys = dict.fromkeys([*was, *now])
        return [line for key in keys for line in _changed(f"{field}.{key}", was.get(key), now.get(key))]
    return [f"{field}: {_value(was)} -> {_value(now)}"]


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value(one)}" for name, one in value.items()) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else dumps(value)


def _names(users: list[str]) -> str:
    more = f" and {len(users) - MOST_NAMED} more" if len(users) > MOST_NAMED else ""
    return ", ".join(users[:MOST_NAMED]) + more
