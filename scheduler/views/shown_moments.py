"""Shows moments of records by the machine's clock, in case somebody has set that since. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Fields of `core.schemas` that are moments by the steady clock.
MOMENTS = frozenset(
    {
        "ends_s",
        "submitted_s",
        "started_s",
        "finished_s",
        "time_s",
        "since_s",
        "until_s",
        "deadline_s",
        "due_s",
        "start_s",
        "start_low_s",
        "start_high_s",
        "end_s",
        "end_low_s",
        "end_high_s",
        "predicted_s",
        "planned_s",
        "known_s",
        "asked_s",
        "at_s",
        "round_s",
    }
)
LEAST_S = 1.0  # by which clocks may differ without anybody seeing it


def shown(view: Any, ahead_s: float) -> Any:
    """Return a view with its moments moved to the machine's clock.

    Args:
        ahead_s: by how much that clock is ahead of the steady one.
    """
    return view if abs(ahead_s) < LEAST_S else _moved(view, ahead_s)


def _moved(view: Any, ahead_s: float) -> Any:
    if isinstance(view, Mapping):
        return {
            name: value + ahead_s if name in MOMENTS and isinstance(value, int | float) else _moved(value, ahead_s)
            for name, value in view.items()
        }
    return [_moved(one, ahead_s) for one in view] if isinstance(view, list | tuple) else view
