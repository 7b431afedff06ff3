"""Shares and times as people read them."""

from __future__ import annotations

import math

from ..results.html import number

_UNITS = (("days", 86_400.0, 2), ("h", 3600.0, 1), ("min", 60.0, 2))  # and from how many of them on


def share(value: float) -> str:
    """Format a part of a whole as `37.6 %`; `-`: not known."""
    return f"{100 * value:.3g} %" if math.isfinite(value) else "-"


def seconds(value: float) -> str:
    """Format seconds in their unit, as `85 s`, `3.4 min`, `1.8 h` or `4.2 days`; `-`: not known."""
    if not math.isfinite(value):
        return "-"
    for unit, size, least in _UNITS:
        if value >= least * size:
            return f"{number(value / size)} {unit}"
    return f"{number(value)} s"
