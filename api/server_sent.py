"""The form of server-sent events."""

from __future__ import annotations

from ..core.json_numbers import dumps

QUIET = ": quiet\n\n"  # says that the connection is alive


def sent(kind: str, data: object, number: int | None = None) -> str:
    """Return one event as it is sent."""
    return ("" if number is None else f"id: {number}\n") + f"event: {kind}\ndata: {dumps(data)}\n\n"
