"""How long a job takes, by the windows of lending: from jobs of its experiment, else of its team and width. Pure.

Source: "Anticipatory Resource Allocation for ML Training", section 5.2. The band holds four of five jobs of the
group and is widened to whole classes, so that a job borrows only where nine of ten like it would have ended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from ..foretold import Foretold
from ..job_history import EndedJob, SubmittedJob

LEAST_JOBS = 3  # of a group, before it tells anything
NEWEST = 200  # jobs of a group that count
LOW, HIGH = 0.1, 0.9  # parts of a group that end before the band, and before its end
SHORTEST_S = 1.0
Group = tuple[str | int, ...]


class LengthClasses:
    """Learns from jobs that end.

    Args:
        windows_s: upper bounds of classes, ascending. A job that takes exactly so long is in the class.
    """

    def __init__(self, windows_s: Sequence[float]) -> None:
        self._windows_s = tuple(windows_s)
        self._groups: dict[Group, deque[float]] = {}

    def ended(self, job: EndedJob) -> None:
        """Count a job that has ended."""
        for group, _ in _groups(job.job):
            self._groups.setdefault(group, deque(maxlen=NEWEST)).append(job.trained_s)

    def typical_s(self, job: SubmittedJob) -> float | None:
        """Return the middle of what jobs like it took; None: too few have ended."""
        found = self._like(job)
        return None if found is None else float(np.median(found[0]))

    def of(self, job: SubmittedJob) -> Foretold | None:
        """Return how long a job takes, as the class it is in; None: nobody knows, or it is beyond all windows."""
        found = self._like(job)
        if found is None:
            return None
        lengths, what = found
        low_s, middle_s, high_s = np.quantile(lengths, (LOW, 0.5, HIGH), method="inverted_cdf").tolist()
        if (last := bisect_left(self._windows_s, high_s)) == len(self._windows_s):
            return None
        first = bisect_left(self._windows_s, low_s)
        bounds_s = max(self._windows_s[first - 1] if first else 0.0, SHORTEST_S), self._windows_s[last]
        mean_s = min(max(middle_s, bounds_s[0]), bounds_s[1])
        return Foretold(mean_s, *bounds_s, f"{len(lengths)} earlier jobs of its {what}")

    def _like(self, job: SubmittedJob) -> tuple[list[float], str] | None:
        """Return the lengths of jobs like it, and what they share."""
        for group, what in _groups(job):
            if len(lengths := self._groups.get(group, ())) >= LEAST_JOBS:
                return list(lengths), what
        return None


def _groups(job: SubmittedJob) -> Iterator[tuple[Group, str]]:
    """Yield the groups of a job, the narrowest first, and what they are."""
    if job.tag:
        yield ("tag", job.team, job.tag), "experiment"
    elif job.name:
        yield ("name", job.team, job.owner, job.name), "owner and name"
    yield ("width", job.team, job.gpus), "team and number of GPUs"
