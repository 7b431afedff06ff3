"""Spans of time as people write them, `90s`, `10m`, `2h`, `1d`, and months as limits count them. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
ACCEPTED = "a number and s, m, h or d, as in 10m"
MOST_S = 10 * 365 * 86400.0  # ten years


def seconds_of(text: str) -> float | None:
    """Return a span in seconds; None: it is none."""
    found = _SPAN.fullmatch(text.strip())
    return None if found is None else float(found[1]) * _SECONDS[found[2]]


def month_begins_s(wall_s: float) -> float:
    """Return when the calendar month of a moment began, in UTC. Both are seconds since 1970."""
    now = datetime.fromtimestamp(wall_s, UTC)
    return datetime(now.year, now.month, 1, tzinfo=UTC).timestamp()
