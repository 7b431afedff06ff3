"""Spans of time as people write them: `90s`, `10m`, `2h`, `1d`. Pure."""

from __future__ import annotations

import re

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
ACCEPTED = "a number and s, m, h or d, as in 10m"
MOST_S = 10 * 365 * 86400.0  # ten years


def seconds_of(text: str) -> float | None:
    """Return a span in seconds; None: it is none."""
    found = _SPAN.fullmatch(text.strip())
    return None if found is None else float(found[1]) * _SECONDS[found[2]]
