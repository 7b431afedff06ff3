"""Which trials train in the bubbles of pipelines: groups whose size each place and its memory allow. Pure.

Hydro, section 3.5.1 (Bubble Squeezer): every stage of a pipeline has one group, as large as the memory that it
leaves. A stage that leaves too little even for one trial has none; nothing is swapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .planner import EpochTime, GroupMemory

HALVINGS = 60  # of the interval that the common epoch time is in


@dataclass(frozen=True)
class Place:
    """A GPU on which a group may train, whole or in its bubbles.

    `name`: of the stage; "": a whole GPU. `rate`: how fast a group is there, over a whole GPU. `gib`: memory that
    is left for it; None: all of a GPU.
    """

    name: str = ""
    rate: float = 1.0
    gib: float | None = None

    def most(self, memory: GroupMemory, limit: int) -> int:
        """Return the most trials of a group that fit there, up to a limit of all groups; 0: none does."""
        there = memory if self.gib is None else replace(memory, gpu_gib=min(self.gib, memory.gpu_gib))
        return min(there.most, limit)


def by_rate(trials: int, places: Sequence[Place], time: EpochTime, memory: GroupMemory, limit: int) -> list[int]:
    """Return how many trials each place trains, so that all end an epoch at about the same time.

    Trials for which no place has room are left out; they wait. A place
    where even one trial would take longer than the others' epochs gets none.

    Args:
        limit: of the trials of a group.
    """
    most = [place.most(memory, limit) for place in places]
    wanted = min(trials, sum(most))
    low_s, high_s = 0.0, max((time.of(n) / place.rate for place, n in zip(places, most, strict=True)), default=0.0)
    for _ in range(HALVINGS):
        middle_s = (low_s + high_s) / 2
        if sum(_sizes(places, most, time, middle_s)) < wanted:
            low_s = middle_s
        else:
            high_s = middle_s
    sizes = _sizes(places, most, time, high_s)
    for _ in range(sum(sizes) - wanted):
        ends_s = [time.of(size) / place.rate if size else 0.0 for size, place in zip(sizes, places, strict=True)]
        sizes[ends_s.index(max(ends_s))] -= 1
    return sizes


def _sizes(places: Sequence[Place], most: Sequence[int], time: EpochTime, epoch_s: float) -> list[int]:
    """Return how many trials each place trains within an epoch's time."""
    found = []
    for place, n in zip(places, most, strict=True):
        fits_s = epoch_s * place.rate - time.alone_s
        within = n if time.each_s <= 0 else int(fits_s / time.each_s + 1e-9)
        found.append(max(min(within, n), 0) if fits_s >= 0 else 0)
    return found
