"""Options by name become a model of pydantic's, and what is wrong with one is a sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic.fields import FieldInfo

from .refused_values import accepted

# Of a field, as `json_schema_extra`: `coadapt calibrate` does not search it, as it is no choice between schedules.
NO_CHOICE: dict[str, JsonValue] = {"searched": False}

OptionsT = TypeVar("OptionsT", bound=BaseModel)


def options_of(model: type[OptionsT], whose: str, options: Mapping[str, Any]) -> OptionsT:
    """Return options by name as a model. `whose`: what sentences call it, such as `policy sia`.

    Raises:
        ValueError: in one sentence, for an unknown option or a value that is not accepted, such as true for a
            number.
    """
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    for name, value in options.items():
        if isinstance(value, bool) and name in fields and _is_number(fields[name]):
            raise ValueError(_sentence(whose, name, value, _number(fields[name])))
    try:
        return model(**options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    name = ".".join(path) or "options"
    if first["type"] == "extra_forbidden":
        raise ValueError(f"{whose}: option {name!r} is unknown; accepted: {', '.join(fields)}")
    if first["type"] in ("value_error", "assertion_error"):
        raise ValueError(f"{whose}: {name}: {first['input']!r} is not accepted: {first['ctx']['error']}")
    field = fields.get(name)
    wanted = _number(field) if field is not None and _is_number(field) else accepted(first)
    raise ValueError(_sentence(whose, name, first["input"], wanted))


def _sentence(whose: str, name: str, value: Any, wanted: str) -> str:
    return f"{whose}: {name}: {value!r} is not accepted, must be {wanted}"


def _forms(field: FieldInfo) -> set[Any]:
    """Return the types that a field takes."""
    kind = field.annotation
    return set(get_args(kind)) if get_origin(kind) in (Union, UnionType) else {kind}


def _is_number(field: FieldInfo) -> bool:
    forms = _forms(field) - {type(None)}
    return bool(forms) and forms <= {int, float}


def _number(field: FieldInfo) -> str:
    """Return which numbers a field takes, as a noun with its bounds."""
    noun = "a number" if float in _forms(field) else "a whole number"
    bounds = {
        name: getattr(rule, name)
        for rule in field.metadata
        for name in ("ge", "gt", "le", "lt")
        if getattr(rule, name, None) is not None
    }
    if {"ge", "le"} <= set(bounds):
        return f"{noun} from {bounds['ge']:g} to {bounds['le']:g}"
    words = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
    told = " and ".join(f"{word} {bounds[name]:g}" for name, word in words.items() if name in bounds)
    return f"{noun} {told}" if told else f"{noun}, and finite"
