"""The phenomena that a reader must be able to see, found in the timeline of who held what. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from coadapt.core.schemas import TimelineRow

PROFILING = "profiling"
SCALE_UP = "scale-up"
SCALE_DOWN = "scale-down under contention"
MIGRATION = "migration between GPU types"
ADAPTED = "batch size and learning rate follow"
TARGETS = "all jobs reach their target metric"


@dataclass(frozen=True)
class Promise:
    """A phenomenon that has to happen, and where it was seen first; None: it was not seen."""

    what: str
    seen: str | None


def running(timeline: Sequence[TimelineRow], job: str) -> list[TimelineRow]:
    """Return the rows of a timeline in which a job runs."""
    return [i for i in timeline if i["job_id"] == job and i["phase"] == "running"]


def promises(timeline: Sequence[TimelineRow], started_s: float) -> list[Promise]:
    """Return the first sight of each phenomenon except `TARGETS`, which no timeline shows."""
    jobs = list(dict.fromkeys(i["job_id"] for i in timeline))
    steps = [pair for job in jobs for pair in pairwise(running(timeline, job))]
    steps.sort(key=lambda pair: pair[1]["start_s"])

    def first(found: Sequence[tuple[TimelineRow, TimelineRow]], text: str) -> str | None:
        for old, new in found:
            clock = f"{new['start_s'] - started_s:.0f} s: {new['job_id']} "
            return clock + text.format(old=old, new=new)
        return None

    profiles = [i for i in timeline if i["phase"] == "profiling"]
    same_type = [(a, b) for a, b in steps if a["gpu_type"] == b["gpu_type"]]
    shrunk = [(a, b) for a, b in same_type if b["gpus"] < a["gpus"] and contended(b, timeline)]
    resized = "{old[gpus]} -> {new[gpus]} {new[gpu_type]}"
    moved = "{old[gpus]} {old[gpu_type]} -> {new[gpus]} {new[gpu_type]}"
    batch = "batch size {old[batch_size]} -> {new[batch_size]}, learning rate {old[lr]:.3g} -> {new[lr]:.3g}"
    types = len({i["gpu_type"] for i in profiles})
    measured = f"{len(profiles)} run{'s' * (len(profiles) > 1)} on {types} GPU type{'s' * (types > 1)}"
    return [
        Promise(PROFILING, measured if profiles else None),
        Promise(SCALE_UP, first([s for s in same_type if s[1]["gpus"] > s[0]["gpus"]], resized)),
        Promise(SCALE_DOWN, first(shrunk, resized)),
        Promise(MIGRATION, first([s for s in steps if s[0]["gpu_type"] != s[1]["gpu_type"]], moved)),
        Promise(ADAPTED, first([s for s in steps if follows(*s)], batch)),
    ]


def missing(seen: Sequence[Promise]) -> set[str]:
    """Return what was not seen."""
    return {promise.what for promise in seen if promise.seen is None}


def contended(shrunk: TimelineRow, timeline: Sequence[TimelineRow], within_s: float = 30.0) -> bool:
    """Return whether another job took GPUs of the type within `within_s` of when this one gave some up.

    A job has GPUs from its first step on, and on a busy machine a start takes some 20 s.
    """
    return any(
        other["job_id"] != shrunk["job_id"]
        and other["gpu_type"] == shrunk["gpu_type"]
        and abs(other["start_s"] - shrunk["start_s"]) <= within_s
        for other in timeline
    )


def follows(old: TimelineRow, new: TimelineRow) -> bool:
    """Return whether the batch size and the learning rate changed in the same direction."""
    if not (old["batch_size"] and new["batch_size"] and old["lr"] and new["lr"]):
        return False
    return (new["batch_size"] > old["batch_size"] and new["lr"] > old["lr"]) or (
        new["batch_size"] < old["batch_size"] and new["lr"] < old["lr"]
    )
