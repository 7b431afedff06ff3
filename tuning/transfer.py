"""From narrow models to the target: who is promoted, and when the target is trained before the search ends. Pure.

Hydro, section 3.4.3 (eager transfer).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum

from .rungs import best_first, goodness


def promoted(metrics: Mapping[int, float | None], count: int, mode: str) -> list[int]:
    """Return the best trials of a width, the best first. None that is NaN is among them."""
    return [one for one in best_first(metrics, mode)[:count] if goodness(metrics[one], mode) > -math.inf]


def counts(promote: int, ladder: Sequence[int]) -> list[int]:
    """Return how many trials enter each width of the ladder: all that are promoted, then half of them, …"""
    found = [promote]
    for _ in ladder[1:]:
        found.append(math.ceil(found[-1] / 2))
    return found[: len(ladder)]


class Eager(StrEnum):
    """What becomes of the target when a better trial appears."""

    WAIT = "wait"
    BEGIN = "begin"  # no target trains yet, or the new one trains beside it
    REPLACE = "replace"  # the new one takes the GPUs of the worse one


def eager(idle: int, running: Mapping[int, float], most: int) -> Eager:
    """Return what is done with the best trial so far, which is no target yet.

    The thesis gives no rule. Where a GPU is idle, the new target trains beside the others. Where none is, it
    takes the place of one that has not come half way; what has, is worth more finished.

    Args:
        idle: GPUs that nobody of the study wants.
        running: the share of its training that each running target has behind it.
        most: the most targets at once.
    """
    if idle > 0 and len(running) < most:
        return Eager.BEGIN
    return Eager.REPLACE if any(share < 0.5 for share in running.values()) else Eager.WAIT


def replaced(metrics: Mapping[int, float | None], running: Mapping[int, float], mode: str) -> int | None:
    """Return the running target that a better one replaces: of those before half, the worst as a narrow model."""
    young = {trial: metrics.get(trial) for trial, share in running.items() if share < 0.5}
    return best_first(young, mode)[-1] if young else None
