"""How long jobs would have trained with GPUs of their own, by the times in which they held some. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...estimators.affinity import pair_speeds
from ...estimators.affinity.uses import UNKNOWN, Floats, row_of
from ..jobs.record import JobRecord
from ..store.intervals import RUNNING, UsageInterval


def seconds(interval: UsageInterval) -> float:
    """Return how long an interval lasted; 0 while it goes on."""
    return 0.0 if interval.end_s is None else interval.end_s - interval.start_s


def use_of(job: JobRecord, gpu_type: str) -> Floats:
    """Return (features,) of `estimators.affinity.uses`: what a job was seen to use of a GPU type."""
    seen = job.usage.get(gpu_type)
    return UNKNOWN if seen is None else row_of(seen.mean)


@dataclass
class AloneTimes:
    """Time with GPUs, less what a partner on the same GPUs cost by the pair-speed model.

    The store does not keep who the partner was. It is taken to be the job that had as many GPUs of the type in
    part, for the longest of that time.

    held: job -> its closed intervals. jobs: by id.
    """

    held: Mapping[str, Sequence[UsageInterval]]
    jobs: Mapping[str, JobRecord]
    _speeds: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def seconds(self, interval: UsageInterval) -> float:
        """Return what an interval was worth alone, s."""
        lasted_s = seconds(interval)
        return lasted_s if interval.share >= 1 else lasted_s * self._speed(interval)

    def gpu_s(self, job_id: str) -> float:
        """Return the GPU-seconds in which a job trained, alone."""
        mine = (one for one in self.held.get(job_id, ()) if one.phase == RUNNING)
        return sum(one.gpus * self.seconds(one) for one in mine)

    def _speed(self, interval: UsageInterval) -> float:
        partner = self._partner(interval)
        if partner is None:
            return 1.0
        key = interval.job_id, partner, interval.gpu_type
        if key not in self._speeds:
            mine, other = (use_of(self.jobs[id], interval.gpu_type)[None] for id in (interval.job_id, partner))
            self._speeds[key] = float(pair_speeds.default().of(mine, other)[0])
        return self._speeds[key]

    def _partner(self, interval: UsageInterval) -> str | None:
        group = self._shared.get((interval.gpu_type, interval.gpus))
        if group is None or interval.end_s is None:
            return None
        here = slice(
            int(np.searchsorted(group.starts_s, interval.start_s - group.longest_s)),
            int(np.searchsorted(group.starts_s, interval.end_s)),
        )
        ends_s = np.minimum(group.ends_s[here], interval.end_s)
        together_s = ends_s - np.maximum(group.starts_s[here], interval.start_s)
        together_s[[id == interval.job_id for id in group.ids[here]]] = 0.0
        if not together_s.size or together_s.max() <= 0:
            return None
        return group.ids[here][int(np.argmax(together_s))]

    @cached_property
    def _shared(self) -> dict[tuple[str, int], _Group]:
        """Return the intervals with a part of GPUs, by GPU type and number."""
        found: dict[tuple[str, int], list[UsageInterval]] = {}
        for intervals in self.held.values():
            for one in intervals:
                if one.share < 1 and one.phase == RUNNING and one.job_id in self.jobs:
                    found.setdefault((one.gpu_type, one.gpus), []).append(one)
        return {key: _Group.of(intervals) for key, intervals in found.items()}


@dataclass(frozen=True, eq=False)
class _Group:
    """Intervals as columns, in order of their starts."""

    ids: Sequence[str]
    starts_s: Floats
    ends_s: Floats
    longest_s: float

    @classmethod
    def of(cls, intervals: Iterable[UsageInterval]) -> _Group:
        rows = sorted(intervals, key=lambda one: (one.start_s, one.job_id))
        starts_s = np.array([one.start_s for one in rows])
        lasted_s = np.array([seconds(one) for one in rows])
        return cls([one.job_id for one in rows], starts_s, starts_s + lasted_s, float(lasted_s.max()))
