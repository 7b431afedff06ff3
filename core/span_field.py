"""A field whose value is a span of time, as seconds or as text."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from .spans import ACCEPTED, MOST_S, seconds_of


def _as_seconds(value: Any) -> Any:
    """Return a span as seconds, and a number as it is. Raises: ValueError for what is past, or no span."""
    told = str(value).strip()
    if isinstance(value, str):
        if (seconds := seconds_of(told.removeprefix("-"))) is None:
            raise ValueError(f"{told[:60] or 'an empty value'} is no span of time; it is seconds, or {ACCEPTED}")
        value = -seconds if told.startswith("-") else seconds
    if isinstance(value, bool):
        raise ValueError(f"{told.lower()} is no span of time; it is seconds, or {ACCEPTED}")
    if not isinstance(value, int | float):
        return value
    if value <= 0:
        raise ValueError(f"{told} is in the past; a span above 0 is accepted, such as 24h")
    return value


Span = Annotated[
    float,
    BeforeValidator(_as_seconds),
    Field(gt=0, le=MOST_S),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_S},
                {"type": "string", "pattern": r"^\s*\d+(\.\d+)?[smhd]\s*$"},
            ]
        }
    ),
]
"""Seconds, as a number or as a text such as `24h`."""
