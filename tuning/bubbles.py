"""Which trials train in the bubbles of pipelines: groups whose size each place and its memory allow. Pure.

Hydro, section 3.5.1 (Bubble Squeezer): every stage of a pipeline has one group, as large as the memory that it
leaves. A stage that leaves too little even for one trial has none; nothing is swapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .planner import EpochTime, GroupMemory

HALVINGS = 60  # of the interval that the common epoch time is in
EARLY = 0.9  # part of a bubble's rate that is counted on, so that groups there come to a rung before the others


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


@dataclass(frozen=True)
class Wave:
    """Trials of a search that wait at one epoch.

    `idle`: whole GPUs that the study could have now. `coming`: groups on whole GPUs that will come to this epoch,
    and take along who waits there; `brought`: trials that they are expected to have then. `epochs`: up to the
    next rung. `alone_s`: how long the study's own GPUs take for all that is left of the search.
    """

    trials: int
    idle: int
    coming: int
    brought: int
    epochs: int
    alone_s: float


def filled(wave: Wave, places: Sequence[Place], time: EpochTime, memory: GroupMemory, limit: int) -> list[int]:
    """Return how many trials each place begins to train now, and then each idle GPU.

    Nobody begins where the study's own GPUs would have done all of the search before a bubble were through. Trials
    that groups on whole GPUs take along sooner wait for these.

    Args:
        limit: of the trials of a group.
    """
    whole = [Place()] * (wave.idle + wave.coming)
    early = [replace(place, rate=EARLY * place.rate) for place in places]
    sizes = by_rate(wave.trials + wave.brought, [*early, *whole], time, memory, limit)
    sizes = sizes[: len(places) + wave.idle]
    ends_s = [time.of(size) / place.rate for place, size in zip(places, sizes, strict=False) if size]
    if not ends_s or max(ends_s) * wave.epochs > wave.alone_s:
        return [0] * len(sizes)
    return sizes


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
