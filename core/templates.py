"""Templates of teams: fields of a job file that fill in what its jobs leave out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from .job import JobSpec
from .refused_values import why_refused

# What says which job it is, and what it is for one time only.
NOT_IN_TEMPLATES = ("name", "script", "command", "working_dir", "team", "after", "resume_from", "array")
_PROBE = {"name": "template", "script": "train.py"}


def filled(given: Mapping[str, Any], template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a job with those of a template where it gives none, also below mappings."""
    found = dict(given)
    for name, value in template.items():
        if name not in found:
            found[name] = value
        elif isinstance(value, Mapping) and isinstance(found[name], Mapping):
            found[name] = filled(found[name], value)
    return found


def taken(given: Mapping[str, Any], template: Mapping[str, Any], inside: str = "") -> list[str]:
    """Return the names of the fields that a template fills in, as `resources.max_gpus`."""
    names: list[str] = []
    for name, value in template.items():
        if name not in given:
            names.append(f"{inside}{name}")
        elif isinstance(value, Mapping) and isinstance(given[name], Mapping):
            names += taken(given[name], value, f"{inside}{name}.")
    return names


def problem_of(template: Mapping[str, Any]) -> str:
    """Return what is wrong with a template, as `FIELD: …`; "": nothing is."""
    for name in template:
        if name in NOT_IN_TEMPLATES:
            return f"{name}: each job says this itself; a template has other fields of a job file"
    try:
        JobSpec.model_validate(filled(_PROBE, template))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            return f"{field}: unknown field of a job file"
        return f"{field}: {why_refused(first)}" if field else why_refused(first)
    return ""
