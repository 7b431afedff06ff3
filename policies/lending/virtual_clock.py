"""Perfect foresight of each job: nobody starts later than alone on its team's quota (sections 4 and 5.1). Pure."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A job that is known exactly. id: unique, ties go by it."""

    id: int
    submitted_s: float
    duration_s: float
    gpus: int


def alone(
    jobs: Iterable[Known], quota: int, now: float = -math.inf, busy: Sequence[tuple[float, int]] = ()
) -> dict[int, float]:
    """Return when jobs start in order of submission on a quota, by id; inf: a job is wider than the quota.

    Args:
        busy: (end in s, GPUs) of what runs at `now`. It may be more than the quota.
    """
    ends = [(end, gpus) for end, gpus in busy if end > now]
    heapq.heapify(ends)
    used, at, found = sum(gpus for _, gpus in ends), now, dict[int, float]()
    for job in sorted(jobs, key=lambda job: (job.submitted_s, job.id)):
        if job.gpus > quota:
            found[job.id] = math.inf
            continue
        at = max(at, job.submitted_s)
        while ends and (ends[0][0] <= at or used + job.gpus > quota):
            end, gpus = heapq.heappop(ends)
            used, at = used - gpus, max(at, end)
        found[job.id] = at
        heapq.heappush(ends, (at + job.duration_s, job.gpus))
        used += job.gpus
    return found


class Timeline:
    """GPUs that are taken, by time."""

    def __init__(self, taken: Iterable[tuple[float, float, int]]) -> None:
        self._taken = list(taken)

    def take(self, begin: float, end: float, gpus: int) -> None:
        self._taken.append((begin, end, gpus))

    def most(self, begin: float, end: float) -> int:
        """Return the most that is taken at a time in [begin, end)."""
        times = [begin, *(at for at, _, _ in self._taken if begin < at < end)]
        return max(sum(gpus for a, b, gpus in self._taken if a <= at < b) for at in times)


def starts(
    jobs: Sequence[Known], due_s: dict[int, float], running: Iterable[tuple[float, int]], gpus: int, now: float
) -> list[int]:
    """Return the ids of jobs that start now. All others find room at the latest when they are due.

    Args:
        jobs: all that wait or are to come. due_s: by when each starts at the latest, by id.
        running: (end in s, GPUs) of what runs. gpus: all there are.
    """
    listed = sorted(jobs, key=lambda job: (max(due_s[job.id], now), job.submitted_s, job.id))
    runs, found = [(now, end, width) for end, width in running], list[int]()
    started = True
    while started:
        started, timeline = False, Timeline(runs)
        for job in listed:
            if job.id in found:
                continue
            end = now + job.duration_s
            if job.submitted_s <= now and timeline.most(now, end) + job.gpus <= gpus:
                runs.append((now, end, job.gpus))
                found.append(job.id)
                started = True
                break
            due = max(due_s[job.id], now)
            if due < math.inf:
                timeline.take(due, due + job.duration_s, job.gpus)
    return found
