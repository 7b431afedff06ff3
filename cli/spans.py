"""Spans of time as people type them: `90s`, `10m`, `2h`, `1d`."""

from __future__ import annotations

import re

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def is_span(text: str) -> bool:
    """Return whether a text is a span of time."""
    return _SPAN.fullmatch(text.strip()) is not None


def span_s(option: str, text: str) -> float:
    """Return a span in seconds. Raises: typer.BadParameter, which names the option."""
    import typer

    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(
            f"{option}: {text} is no span of time; it is a number and s, m, h or d, as in 10m"
        )
    return float(found[1]) * _SECONDS[found[2]]
