"""Services and their options as they are typed: `--service NAME --service-option NAME.KEY=VALUE`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..scheduler.services.catalogue import make_service, service_names


def services_of(names: Sequence[str], options: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the options of each service that is named.

    Raises:
        ValueError: in one sentence, for an unknown service or option, for one that is given twice, and for an
            option of a service that is not named.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        if name in found:
            raise ValueError(f"--service: {name} is given twice; each is accepted once")
        if name not in service_names():
            raise ValueError(f"--service: {name!r} is unknown; accepted: {', '.join(service_names())}")
        found[name] = {}
    for text in options:
        path, equals, value = text.partition("=")
        name, dot, key = path.partition(".")
        if not (name and dot and key and equals):
            raise ValueError(f"--service-option: {text} is not of the form NAME.KEY=VALUE")
        if name not in found:
            raise ValueError(f"--service-option: {text} is of service {name}, which --service does not name")
        if key in found[name]:
            raise ValueError(f"--service-option: {name}.{key} is given twice; each is accepted once")
        found[name][key] = _value(value)
    for name, chosen in found.items():
        try:
            make_service(name, chosen)
        except ValueError as error:
            raise ValueError(f"--service-option: {error}") from None
    return found


def _value(text: str) -> Any:
    """Return a value that is JSON as what it is, and any other as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
