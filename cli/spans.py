"""Spans of time as options: `90s`, `10m`, `2h`, `1d`."""

from __future__ import annotations

from ..core.spans import ACCEPTED, seconds_of


def is_span(text: str) -> bool:
    """Return whether a text is a span of time."""
    return seconds_of(text) is not None


def span_s(option: str, text: str) -> float:
    """Return a span in seconds. Raises: typer.BadParameter, which names the option."""
    import typer

    if (found := seconds_of(text)) is None:
        raise typer.BadParameter(f"{option}: {text} is no span of time; it is {ACCEPTED}")
    return found
