"""Perfect foresight of each job: nobody starts later than alone on its team's quota (sections 4 and 5.1). Pure."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
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
    """GPUs that are taken from a time on, as a step function."""

    def __init__(self, now: float) -> None:
        self._times, self._taken = [now, math.inf], [0, 0]  # from each time on, until the next

    def take(self, begin: float, end: float, gpus: int) -> None:
        """Take GPUs in [begin, end), which begins at the first time or later."""
        first, last = self._at(begin), self._at(end)
        for place in range(first, last):
            self._taken[place] += gpus

    def most(self, begin: float, end: float) -> int:
        """Return the most that is taken at a time in [begin, end)."""
        first, last = bisect_right(self._times, begin) - 1, bisect_left(self._times, end)
        return max(self._taken[first:last])

    def _at(self, time: float) -> int:
        """Return the place of a step at a time, which is made if there is none."""
        place = bisect_left(self._times, time)
        if self._times[place] != time:
            self._times.insert(place, time)
            self._taken.insert(place, self._taken[place - 1])
        return place


def starts(
    jobs: Sequence[Known],
    due_s: Mapping[int, float],
    running: Iterable[tuple[float, int]],
    gpus: int,
    now: float,
) -> list[int]:
    """Return the ids of jobs that start now. All others find room at the latest when they are due (Figure 6).

    One pass does: a job that starts takes nothing from those that are due before it, which found no room.

    Args:
        jobs: all that wait or are to come. due_s: by when each starts at the latest, by id.
        running: (end in s, GPUs) of what runs. gpus: all there are.
    """
    found, timeline = list[int](), Timeline(now)
    for end, width in running:
        timeline.take(now, end, width)
    until = now + max((job.duration_s for job in jobs if job.submitted_s <= now), default=0.0)
    for job in sorted(jobs, key=lambda job: (max(due_s[job.id], now), job.submitted_s, job.id)):
        end, due = now + job.duration_s, max(due_s[job.id], now)
        if job.submitted_s <= now and timeline.most(now, end) + job.gpus <= gpus:
            timeline.take(now, end, job.gpus)
            found.append(job.id)
        elif due < until:  # what is reserved later is beside nobody who waits
            timeline.take(due, due + job.duration_s, job.gpus)
    return found
