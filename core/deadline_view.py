"""What a job is told of its deadline as the API sends it, and back. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .deadline_answer import Answer, DeadlineAnswer, End

if TYPE_CHECKING:
    from .schemas import DeadlineView

DAY_S = 86_400.0


def deadline_view(told: DeadlineAnswer) -> DeadlineView:
    """Return an answer as plain values."""
    end = told.end
    return {
        "answer": told.answer.value,
        "due_s": told.due_s,
        "end_s": None if end is None else end.at_s,
        "end_low_s": None if end is None else end.low_s,
        "end_high_s": None if end is None else end.high_s,
        "planned_s": told.by_s,
        "known_s": told.known_s,
        "worth": told.worth,
        "most": told.most,
        "cancelled": told.cancelled,
    }


def of_view(view: DeadlineView) -> DeadlineAnswer:
    """Return the answer of plain values. Raises: ValueError for an answer that is none."""
    end = None
    if (at_s := view["end_s"]) is not None:
        low_s, high_s = view["end_low_s"], view["end_high_s"]
        end = End(at_s, at_s if low_s is None else low_s, at_s if high_s is None else high_s)
    return DeadlineAnswer(
        Answer(view["answer"]),
        view["due_s"],
        end,
        view["planned_s"],
        view["known_s"],
        view["worth"],
        view["most"],
        view["cancelled"],
    )


def in_words(view: DeadlineView, now: float, at: Callable[[float], str] | None = None) -> str:
    """Return an answer in a line, such as `on time, expected end 13:12 ± 9 min`.

    Args:
        at: formats a moment; None: by the clock of this machine.
    """
    return of_view(view).text(now, at or (lambda moment_s: clock(moment_s, now)))


def clock(moment_s: float, now: float) -> str:
    """Format a moment by the clock of this machine, with its day where it is far away."""
    left_s = moment_s - now
    form = "%H:%M:%S" if left_s < 600 else "%H:%M" if left_s < DAY_S / 2 else "%d %b %H:%M"
    return time.strftime(form, time.localtime(moment_s))
