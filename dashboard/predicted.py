"""When jobs start, in words. Pure but for the time of now."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..core.deadline_view import of_view
from ..core.schemas import JobRow
from ..core.wording import span


def starts_in(job: JobRow) -> str:
    """Return "starts in about 4 min"; "": nobody knows, or it has GPUs."""
    told = job.get("predicted")
    return "" if told is None or told["start_s"] is None else f"starts in {about(told['start_s'])}"


def next_start(waiting: Iterable[JobRow]) -> str:
    """Return "the next starts in about 4 min" of jobs that wait; "": nobody knows."""
    starts = [
        told["start_s"]
        for job in waiting
        if (told := job.get("predicted")) is not None and told["start_s"] is not None
    ]
    return f"the next starts in {about(min(starts))}" if starts else ""


def about(moment_s: float) -> str:
    """Return the time to a moment as "about 4 min"; in steps, so that it does not change with each look."""
    left_s = max(moment_s - time.time(), 0.0)
    step_s = 10.0 if left_s < 120 else 60.0 if left_s < 3600 else 600.0
    return f"about {span(max(round(left_s / step_s), 1) * step_s)}"


def deadline_holds(job: JobRow) -> str:
    """Return whether its deadline will hold, such as "on time"; "": it has none, or nobody can tell yet."""
    told = job.get("deadline")
    return "" if told is None else of_view(told).short(time.time())
