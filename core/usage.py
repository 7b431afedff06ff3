"""How much a job uses its GPUs: sums over GPU-seconds, so that those of any times can be added. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

IDLE_BELOW = 0.05  # mean utilisation of a GPU over a minute; below it the GPU was idle in that minute
IDLE_WINDOW_S = 60.0
RECENT_S = 60.0  # a sample counts half as much for recent use when it is so old
NOTABLE_GPU_MINUTES = 10.0  # so much idleness is worth an event …
NOTABLE_SHARE = 0.1  # … if it is at least this part of the time that was looked at


@dataclass(frozen=True)
class Mean:
    """The mean of a quantity over those GPU-seconds in which it was known, kept as a sum."""

    total: float = 0.0  # of the quantity times GPU-seconds
    seconds: float = 0.0

    @property
    def value(self) -> float | None:
        """The mean; None if the quantity was never known."""
        return self.total / self.seconds if self.seconds > 0 else None

    def __add__(self, other: Mean) -> Mean:
        return Mean(self.total + other.total, self.seconds + other.seconds)

    def times(self, factor: float) -> Mean:
        """Return the same mean with another weight."""
        return Mean(self.total * factor, self.seconds * factor)

    @classmethod
    def of(cls, value: float | None, seconds: float) -> Mean:
        """Return a quantity that was constant for so many GPU-seconds, or unknown."""
        return cls() if value is None else cls(value * seconds, seconds)


NEVER_KNOWN = Mean()


@dataclass(frozen=True)
class Usage:
    """What was seen of GPUs that a job held, whole or in part."""

    seconds: float = 0.0  # GPU-seconds in which GPUs were looked at
    gpu: Mean = NEVER_KNOWN  # part of the time in which a GPU worked for the job
    memory: Mean = NEVER_KNOWN  # part of the time in which its memory was read or written
    gib: Mean = NEVER_KNOWN  # GPU memory in use, GiB per GPU
    idle_s: float = 0.0  # GPU-seconds held in minutes in which the GPU was idle (`IDLE_BELOW`)
    emulated: bool = False  # some of these GPUs are emulated

    @property
    def gpu_util(self) -> float | None:
        """Mean GPU utilisation, 0..1; None: unknown."""
        return _part(self.gpu)

    @property
    def memory_util(self) -> float | None:
        """Mean utilisation of the GPU's memory, 0..1; None: unknown."""
        return _part(self.memory)

    @property
    def memory_gib(self) -> float | None:
        """Mean GPU memory in use per GPU, GiB; None: unknown."""
        return self.gib.value

    @property
    def idle_gpu_minutes(self) -> float:
        return self.idle_s / 60

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.seconds + other.seconds,
            self.gpu + other.gpu,
            self.memory + other.memory,
            self.gib + other.gib,
            self.idle_s + other.idle_s,
            self.emulated or other.emulated,
        )

    def times(self, factor: float) -> Usage:
        """Return the same means with another weight."""
        gpu, memory, gib = (mean.times(factor) for mean in (self.gpu, self.memory, self.gib))
        return Usage(self.seconds * factor, gpu, memory, gib, self.idle_s * factor, self.emulated)

    def to_row(self) -> list[Any]:
        """Return it as JSON's own types."""
        sums = [number for mean in (self.gpu, self.memory, self.gib) for number in (mean.total, mean.seconds)]
        return [self.seconds, *sums, self.idle_s, self.emulated]

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Usage:
        """Return what `to_row` wrote."""
        seconds, *sums, idle_s, emulated = row
        gpu, memory, gib = (Mean(*sums[at : at + 2]) for at in (0, 2, 4))
        return cls(seconds, gpu, memory, gib, idle_s, emulated)


NO_USAGE = Usage()


@dataclass(frozen=True)
class UsageOn:
    """A job's use of GPUs of one type: over all its time, and of the last minutes in which it held some."""

    mean: Usage = NO_USAGE
    recent: Usage = NO_USAGE  # a sample's weight is halved every `RECENT_S`
    at_s: float = 0.0  # when this was last heard of

    def with_more(self, usage: Usage, now: float) -> UsageOn:
        """Return it with what was seen since it was last heard of."""
        fading = 0.5 ** (max(now - self.at_s, 0.0) / RECENT_S)
        return UsageOn(self.mean + usage, self.recent.times(fading) + usage, now)

    def to_row(self) -> dict[str, Any]:
        """Return it as JSON's own types."""
        return {"mean": self.mean.to_row(), "recent": self.recent.to_row(), "at_s": self.at_s}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> UsageOn:
        """Return what `to_row` wrote."""
        return cls(Usage.from_row(row["mean"]), Usage.from_row(row["recent"]), row["at_s"])


def idle_gpu_minutes(usage: Iterable[UsageOn]) -> float | None:
    """Return the minutes times GPUs in which held GPUs were idle; None: utilisation was never known."""
    found = list(usage)
    if not any(one.mean.gpu.seconds for one in found):
        return None
    return sum(one.mean.idle_gpu_minutes for one in found)


def is_notably_idle(usage: Iterable[UsageOn]) -> bool:
    """Return whether held GPUs were idle for long enough that their owner should know."""
    found = list(usage)
    known_s = sum(one.mean.gpu.seconds for one in found)
    idle_s = sum(one.mean.idle_s for one in found)
    return idle_s >= 60 * NOTABLE_GPU_MINUTES and idle_s >= NOTABLE_SHARE * known_s


@dataclass
class IdleMinutes:
    """Finds the minutes in which one GPU was idle. Time without a known utilisation counts for neither.

    `share`: the part of the GPU that is held. It is idle if it is used less than `IDLE_BELOW` of that.
    """

    share: float = 1.0
    busy_s: float = field(default=0.0, init=False)
    window_s: float = field(default=0.0, init=False)

    def add(self, gpu_util: float | None, seconds: float) -> float:
        """Return the idle GPU-seconds of the minute that this sample ends; 0 before its end or if it was busy."""
        if gpu_util is None:
            return 0.0
        self.busy_s += gpu_util * seconds
        self.window_s += seconds
        if self.window_s < IDLE_WINDOW_S:
            return 0.0
        idle = self.busy_s < IDLE_BELOW * self.share * self.window_s
        held_s = self.window_s * self.share
        self.busy_s = self.window_s = 0.0
        return held_s if idle else 0.0


def _part(mean: Mean) -> float | None:
    # An emulated GPU that catches up on time it owes is ahead of the clock for a moment.
    return None if mean.value is None else min(mean.value, 1.0)
