"""Moments as people type them: `10m` and `2h` from now, or `2026-12-01 22:00` by the local clock."""

from __future__ import annotations

from datetime import datetime

from .spans import is_span, span_s

ACCEPTED = "a time from now such as 10m or 2h, or a moment such as 2026-12-01T22:00"


def moment_s(option: str, text: str, now: float) -> float:
    """Return a moment in seconds since 1970. Raises: typer.BadParameter, which names the option."""
    import typer

    if is_span(text):
        return now + span_s(option, text)
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise typer.BadParameter(f"{option}: {text} is no moment; it is {ACCEPTED}") from None
