"""Decides what is removed because it is old or too much. Pure.

Nothing of a job that has not ended is ever named, nor of one from whose checkpoint an active fork starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

DAY_S, GIB = 86_400.0, 2.0**30


@dataclass(frozen=True)
class EndedJob:
    """A job that has ended and holds nothing. Seconds of the steady clock."""

    id: str
    number: int
    finished_s: float


@dataclass(frozen=True)
class JobFiles:
    """Files of an ended job, of one kind."""

    job_id: str
    finished_s: float
    bytes: int


@dataclass(frozen=True)
class PackageFile:
    """A package on disk. `idle_s`: since somebody asked for it."""

    name: str
    idle_s: float
    bytes: int


def cutoff_s(days: float | None, now: float) -> float | None:
    """Return the moment before which all is too old; None: nothing is."""
    return None if days is None else now - days * DAY_S


def jobs_to_remove(
    oldest: Sequence[EndedJob], total: int, kept: Collection[str], days: float | None, most: int | None, now: float
) -> list[EndedJob]:
    """Return which of the oldest ended jobs are to go.

    Args:
        oldest: the oldest ones, oldest first, of `total` in all.
        kept: ids of those that stay whatever their age.
    """
    before_s, too_many = cutoff_s(days, now), 0 if most is None else max(total - most, 0)
    return [
        job
        for at, job in enumerate(oldest)
        if job.id not in kept and (at < too_many or (before_s is not None and job.finished_s < before_s))
    ]


def files_to_remove(
    found: Iterable[JobFiles], kept: Collection[str], days: float | None, gib: float | None, now: float
) -> list[JobFiles]:
    """Return whose files are to go: those too old, then the oldest until the rest fits."""
    before_s, some = cutoff_s(days, now), sorted(found, key=lambda one: (one.finished_s, one.job_id))
    left, going = sum(one.bytes for one in some), list[JobFiles]()
    for one in some:
        old = before_s is not None and one.finished_s < before_s
        if one.job_id not in kept and (old or (gib is not None and left > gib * GIB)):
            going.append(one)
            left -= one.bytes
    return going


def packages_to_remove(found: Iterable[PackageFile], named: Collection[str], days: float) -> list[PackageFile]:
    """Return which packages are to go: those that no job names, and that nobody has asked for lately."""
    return [one for one in found if one.name not in named and one.idle_s > days * DAY_S]
