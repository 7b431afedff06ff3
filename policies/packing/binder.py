"""Who may be beside whom on a GPU: Lucid's Affine-jobpair Binder (section 4.3.2). Pure.

A pair is allowed if the Sharing Scores together are at most the capacity of a GPU, and its memory is enough for
both. Both have as many GPUs. Each is alone, and neither is spread over nodes. The one that runs is not about to
end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from ...core.usage import Usage


class Packing(StrEnum):
    """How much is shared. `auto`: as arrivals that are forecast say."""

    AUTO = "auto"
    DEFAULT = "default"
    APATHETIC = "apathetic"
    OFF = "off"


class Partner(StrEnum):
    """Which of several partners a job gets."""

    FIRST = "first"  # who was placed first
    LIGHTEST = "lightest"  # the lowest score, then the longest left
    FASTEST = "fastest"  # the highest speed of the pair, then the longest left


CAPACITY = {Packing.DEFAULT: 2, Packing.APATHETIC: 1, Packing.OFF: -1}  # of Sharing Scores on one GPU


class ModeOptions(BaseModel):
    """When less is shared because little is to come.

    low_jobs: jobs of a slot of 10 min; the cluster is quiet at or below it.
    off_jobs: forecast jobs of a slot; with a quiet cluster nothing is shared at or below it.
    forecast_only: the mode is default or off by the forecast alone, as in the published simulator.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    low_jobs: float = Field(default=4.0, ge=0)
    off_jobs: float = Field(default=2.0, ge=0)
    forecast_only: bool = False


def mode(now_jobs: float, ahead_jobs: float, options: ModeOptions) -> Packing:
    """Return how much is shared, by the jobs of a slot now and in the mean of the next ones (section 4.3.2)."""
    if options.forecast_only:
        return Packing.OFF if ahead_jobs <= options.off_jobs else Packing.DEFAULT
    if max(now_jobs, ahead_jobs) > options.low_jobs:
        return Packing.DEFAULT
    return Packing.OFF if ahead_jobs <= options.off_jobs else Packing.APATHETIC


@dataclass(frozen=True)
class Facts:
    """What the binder goes by of one job.

    score: 0 tiny, 1 medium, 2 jumbo; None: nothing was measured yet.
    memory_gib: of each GPU; None: unknown.
    left_s: what it still needs; total_s: what it needs from its beginning.
    """

    id: str
    gpus: int
    score: int | None
    memory_gib: float | None
    left_s: float
    total_s: float
    usage: Usage | None = None


@dataclass(frozen=True)
class Rules:
    """The rules of pairs.

    capacity: of Sharing Scores; below 0: nothing is shared.
    least_left: a partner has at least so much of the newcomer's time left; 0: however little it has left.
    by_total: compare the whole times of both instead, as the published simulator does.
    gpu_memory_gib: by GPU type; a type that is absent has no limit.
    """

    capacity: int
    least_left: float = 0.5
    by_total: bool = False
    gpu_memory_gib: Mapping[str, float] = field(default_factory=dict)

    def refuses(self, new: Facts, old: Facts, gpu_type: str) -> str | None:
        """Return why two jobs may not share GPUs of a type, the new one beside the old one; None: they may."""
        if new.gpus != old.gpus:
            return f"it has {old.gpus} GPUs and not {new.gpus}"
        if new.score is None or old.score is None:
            return "its use of GPUs is not known yet" if old.score is None else "the job's use is not known yet"
        if new.score + old.score > self.capacity:
            return f"scores {new.score} and {old.score} are more than {max(self.capacity, 0)}"
        if new.memory_gib is None or old.memory_gib is None:
            return "the memory of one of them is not known yet"
        room = self.gpu_memory_gib.get(gpu_type)
        if room is not None and new.memory_gib + old.memory_gib >= room:
            both = new.memory_gib + old.memory_gib
            return f"both need {both:.1f} GiB of {room:.1f} GiB"
        has, needs = (old.total_s, new.total_s) if self.by_total else (old.left_s, new.left_s)
        if has < self.least_left * needs:
            return "it is about to end"
        return None


def partners(new: Facts, running: Iterable[tuple[Facts, str]], rules: Rules) -> list[Facts]:
    """Return those running jobs, given with their GPU types, beside whom a job may be. They keep their order."""
    if rules.capacity < 0:
        return []
    return [old for old, gpu_type in running if rules.refuses(new, old, gpu_type) is None]


def chosen(found: Sequence[Facts], by: Partner, speed: Mapping[str, float]) -> Facts:
    """Return the partner that a job gets. `speed`: of the pair with each, by id; for `fastest` only."""
    if by is Partner.FIRST:
        return found[0]
    if by is Partner.LIGHTEST:
        return min(found, key=lambda one: (one.score, -one.left_s, one.id))
    return min(found, key=lambda one: (-speed.get(one.id, 0.0), -one.left_s, one.id))
