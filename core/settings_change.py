"""Which settings may change while the scheduler runs, and what they are then. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from .errors import SettingError
from .refused_values import shown, why_refused
from .settings import Settings

PLACES = ("state_dir", "checkpoint_root", "store_url", "secret_key_file")
AT_START = ("services", "pair_speeds", "power", "spare_cpus", "api", "log_format")


def why_fixed(name: str) -> str:
    """Return why a setting cannot change while the scheduler runs; "": it can."""
    if name in PLACES:
        return "it names a place; `coadapt down` first, and give it to the next `coadapt up`"
    if name in AT_START:
        return "it counts from a start on; `coadapt down --keep-jobs`, and give it to the next `coadapt up`"
    return ""


def parsed(words: Iterable[str]) -> dict[str, Any]:
    """Return what `KEY=VALUE` says; a value that is no JSON is text. Raises: SettingError."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals):
            raise SettingError(f"{word} is not of the form KEY=VALUE, such as round_interval_s=30")
        if key in found:
            raise SettingError(f"{key} is given twice; each is accepted once")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def changed(now: Settings, wanted: Mapping[str, Any]) -> Settings:
    """Return the settings with others. A key such as `retention.event_days` names a part of one.

    Another policy has no options of the one before. Raises: SettingError, in one sentence.
    """
    for key in wanted:
        name = key.partition(".")[0]
        if why := why_fixed(name):
            raise SettingError(f"{name}: cannot change while the scheduler runs: {why}")
    document, names = _with(now, wanted), {key.partition(".")[0] for key in wanted}
    if "policy" in names and "policy_options" not in names and document["policy"] != now.policy:
        document["policy_options"] = {}
    return validated(document)


def typed(now: Settings, wanted: Mapping[str, Any]) -> Settings:
    """Return the settings with others that are typed at a start, when each of them may change.

    Raises: SettingError, in one sentence.
    """
    if "state_dir" in wanted:
        raise SettingError("state_dir: the variable COADAPT_HOME names it, for all commands")
    return validated(_with(now, wanted))


def validated(document: Mapping[str, Any]) -> Settings:
    """Return the settings of a document. Raises: SettingError for what they do not accept."""
    try:
        return Settings.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise SettingError(f"{field}: unknown setting") from None
        raise SettingError(f"{field}: {why_refused(first)}") from None


def _with(now: Settings, wanted: Mapping[str, Any]) -> dict[str, Any]:
    document = now.model_dump()
    for key, value in wanted.items():
        name, *parts = key.split(".")
        if name not in document:
            raise SettingError(f"{name}: unknown setting; known: {', '.join(document)}")
        _put(document, key, [name, *parts], value)
    return document


def _put(document: dict[str, Any], key: str, path: list[str], value: Any) -> None:
    """Set a part of a document."""
    inner = document
    for part in path[:-1]:
        step = inner.get(part)
        if not isinstance(step, dict):
            raise SettingError(f"{key}: {part} has no parts; it is {shown(step)}")
        inner[part] = inner = dict(step)
    inner[path[-1]] = value


def differing(one: Settings, other: Settings) -> list[str]:
    """Return the names of settings that differ."""
    return [name for name in type(one).model_fields if getattr(one, name) != getattr(other, name)]
