"""Numbers, times and counts as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from ..core.wording import span


def count(number: int, one: str, many: str | None = None) -> str:
    """Return "1 job", "6 jobs" and so on."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def iso(moment_s: float) -> str:
    """Return a moment as browsers read it."""
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc(moment_s: float) -> str:
    """Return a moment for people; the page's script puts it into their own time zone."""
    return datetime.fromtimestamp(moment_s, UTC).strftime("%d %b %H:%M UTC")


def per_cent(part: float) -> str:
    """Return a part of one in whole per cent; what has begun is not 0, and what has not ended is not 100."""
    if 0 < part < 1:
        return f"{min(max(round(part * 100), 1), 99)} %"
    return f"{round(part * 100)} %"


def took(seconds: float) -> str:
    """Return how long something short took, as "17 ms" or "1.2 s"."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else span(seconds)


def short(value: float | None) -> str:
    """Return a figure with three digits; an en dash for what is not known."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
