"""When a job starts and ends, as `list` and `describe` say it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..core.deadline_view import clock, in_words
from ..core.wording import span

if TYPE_CHECKING:
    from ..core.schemas import JobRow

DAY_S = 86_400.0


def rough(seconds: float) -> str:
    """Format a span of time in at most two digits of its unit, as `47s`, `12m`, `3h` or `2d`."""
    whole = max(seconds, 0.0)
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("m", 60.0)):
        if whole >= 2 * size:
            return f"{whole / size:.0f}{unit}"
    return f"{whole:.0f}s"


def ends_in(job: JobRow, now: float) -> str:
    """Format the time to the predicted end with its band, as `12m (10m-15m)`; "": nothing is predicted."""
    told = job.get("predicted")
    if told is None or told["end_s"] is None:
        return ""
    low_s, high_s = told["end_low_s"] or told["end_s"], told["end_high_s"] or told["end_s"]
    return f"{rough(told['end_s'] - now)} ({rough(low_s - now)}-{rough(high_s - now)})"


def starts_in(job: JobRow, now: float) -> str:
    """Format the time to the predicted start, as `in 4m`; "": it has GPUs, or nothing is predicted."""
    told = job.get("predicted")
    return "" if told is None or told["start_s"] is None else f"in {rough(told['start_s'] - now)}"


def lines(job: JobRow, now: float) -> list[tuple[str, str]]:
    """Return what `describe` says of start and end, each with its name."""
    told = job.get("predicted")
    if told is None:
        return []
    found = []
    if told["start_s"] is not None:
        about = span(max(told["start_s"] - now, 0.0))
        moments = _moments(told["start_s"], told["start_low_s"], told["start_high_s"], now)
        found.append(("starts", f"in about {about}: {moments}"))
    elif told["why_no_start"]:
        found.append(("starts", told["why_no_start"]))
    if told["end_s"] is not None:
        found.append(("ends", _moments(told["end_s"], told["end_low_s"], told["end_high_s"], now)))
    elif told["why_no_end"]:
        found.append(("ends", told["why_no_end"]))
    worlds = "1 world" if told["worlds"] == 1 else f"{told['worlds']} worlds"
    return [*found, ("predicted", f"{span(max(now - told['predicted_s'], 0.0))} ago, by {worlds}")]


def deadline_rows(job: JobRow, now: float) -> list[tuple[str, str]]:
    """Return what `describe` says of a deadline: which is planned for, and whether it will hold."""
    due_s, told = job.get("due_s"), job.get("deadline")
    if due_s is None or job["finished_s"] is not None:
        return []
    planned_s = due_s if told is None else told["due_s"]
    left = f"in {span(planned_s - now)}" if planned_s > now else f"{span(now - planned_s)} ago"
    found = [("due", f"{clock(planned_s, now)}, {left}")]
    return found if told is None else [*found, ("deadline", in_words(told, now))]


def _moments(at_s: float, low_s: float | None, high_s: float | None, now: float) -> str:
    """Format a moment with its band, as `14:20, between 14:08 and 14:41`."""
    low_s, high_s = at_s if low_s is None else low_s, at_s if high_s is None else high_s
    form = "%H:%M:%S" if high_s - now < 600 else "%H:%M" if high_s - now < DAY_S / 2 else "%d %b %H:%M"
    at, low, high = (time.strftime(form, time.localtime(one)) for one in (at_s, low_s, high_s))
    return f"{at}, between {low} and {high}"
