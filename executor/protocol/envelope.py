"""How an event travels from an executor to the service: with the version of the protocol, as plain values.

Executor and service may be of different versions, as a service is exchanged while jobs train. Fields that the
service does not know do no harm, and fields that an executor does not send have their defaults.
Version 1 sent the events themselves; version 2 sends what this module makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from ...core import batch_plan, reports, slot, usage
from . import job_events
from .job_events import ExecutorEvent

VERSION = 2
SERVED = (1, 2)  # versions of executors that the service understands
OBJECT = "~object"  # begins the tuple that stands for one
MEASURED = "~measured"  # begins the tuple that stands for measurements
_KNOWN: dict[str, type] = {
    name: one
    for module in (job_events, reports, batch_plan, slot, usage)
    for name, one in vars(module).items()
    if isinstance(one, type) and is_dataclass(one) and one.__module__ == module.__name__
}
_EVENTS = ExecutorEvent.__args__


class UnknownMessage(ValueError):
    """A message that this version cannot read; one sentence."""


def packed(event: ExecutorEvent) -> dict[str, Any]:
    """Return an event as it is sent."""
    return {"protocol": VERSION, "event": _plain(event)}


def unpacked(message: object, measured: Callable[[str], object] = lambda text: text) -> ExecutorEvent:
    """Return the event of a message of any version that is served.

    Args:
        measured: makes measurements of their JSON.

    Raises: UnknownMessage.
    """
    if isinstance(message, _EVENTS):  # of version 1, whose objects lack what was added since
        return _made(type(message), vars(message))
    if not isinstance(message, Mapping) or not {"protocol", "event"} <= message.keys():
        raise UnknownMessage(f"its executor sent a message of no known form: {type(message).__name__}")
    version, told = message["protocol"], message["event"]
    event = _object(told, measured)
    if not isinstance(event, _EVENTS):
        raise UnknownMessage(f"its executor (protocol {version}) sent what is no event: {type(event).__name__}")
    return event


def _plain(value: Any) -> Any:
    if is_dataclass(value) and type(value).__name__ in _KNOWN:
        return (
            OBJECT,
            type(value).__name__,
            {one.name: _plain(getattr(value, one.name)) for one in fields(value)},
        )
    if hasattr(value, "to_json") and hasattr(value, "profiles"):
        return (MEASURED, value.to_json())
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if type(value) is tuple:
        return tuple(map(_plain, value))
    return list(map(_plain, value)) if type(value) is list else value


def _object(value: Any, measured: Callable[[str], object]) -> Any:
    if type(value) is tuple and len(value) == 3 and value[0] == OBJECT:
        _, name, told = value
        if name not in _KNOWN:
            raise UnknownMessage(f"its executor sent a {name}, which only a later version knows")
        return _made(_KNOWN[name], {key: _object(one, measured) for key, one in told.items()})
    if type(value) is tuple and len(value) == 2 and value[0] == MEASURED:
        return measured(value[1])
    if isinstance(value, Mapping):
        return {key: _object(one, measured) for key, one in value.items()}
    if type(value) is tuple:
        return tuple(_object(one, measured) for one in value)
    return [_object(one, measured) for one in value] if type(value) is list else value


def _made(kind: type, told: Mapping[str, Any]) -> Any:
    """Return an object of what is known of it."""
    names = {one.name: one.default is MISSING and one.default_factory is MISSING for one in fields(kind)}
    if lacks := [name for name, needed in names.items() if needed and name not in told]:
        raise UnknownMessage(f"its executor sent a {kind.__name__} without {', '.join(lacks)}")
    return kind(**{name: told[name] for name in names if name in told})
