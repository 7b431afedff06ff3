"""The times in which jobs held GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, select

from ...core.identity import Reader
from ..jobs.held_time import TRAINING, HeldTime
from .readers import told_to
from .schema import intervals, jobs

RUNNING, PROFILING = "running", "profiling"  # phases
_COLUMNS = tuple(column for column in intervals.c if column.name != "id")


@dataclass(frozen=True)
class UsageInterval:
    """A time in which a job held `gpus` GPUs of a type on `nodes` nodes, each to the part `share`.

    `end_s` is None while it goes on.
    """

    job_id: str
    start_s: float
    end_s: float | None
    gpu_type: str
    gpus: int
    nodes: int
    batch_size: int | None = None
    lr: float | None = None
    phase: str = RUNNING
    share: float = 1.0

    @property
    def weight(self) -> float:
        """GPUs, each counted by the part of it that is held."""
        return self.gpus if self.share == 1.0 else self.gpus * self.share

    @property
    def key(self) -> str:
        """Return the key of its time in `HeldTime`."""
        return TRAINING if self.phase == RUNNING else self.gpu_type


@dataclass(frozen=True)
class JobTimes:
    """How long a job has held GPUs, and its open intervals by key, each with its number in the store."""

    held: HeldTime = field(default_factory=HeldTime)
    open: Mapping[str, tuple[int, UsageInterval]] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Iterable[tuple[int, UsageInterval]]) -> JobTimes:
        """Return the times of stored intervals of one job, oldest first."""
        times = cls()
        for number, interval in found:
            times = times.begun(number, interval)
            if interval.end_s is not None:
                times = times.ended(interval.key, interval.end_s)
        return times

    def begun(self, number: int, interval: UsageInterval) -> JobTimes:
        """Return the times with an interval that begins."""
        held = self.held.begun(interval.key, interval.start_s, interval.weight)
        return JobTimes(held, {**self.open, interval.key: (number, interval)})

    def with_open(self, number: int, interval: UsageInterval) -> JobTimes:
        """Return the times with another value of an open interval that holds the same GPUs."""
        return replace(self, open={**self.open, interval.key: (number, interval)})

    def ended(self, key: str, now: float) -> JobTimes:
        """Return the times with the open interval of a key ended."""
        return JobTimes(self.held.ended(key, now), {k: one for k, one in self.open.items() if k != key})


def row(number: int, interval: UsageInterval) -> dict[str, Any]:
    """Return the row of an interval."""
    return {"id": number, **asdict(interval)}


def read(
    connection: Connection, job_ids: Iterable[str] | None = None, reader: Reader | None = None
) -> Iterator[tuple[int, UsageInterval]]:
    """Yield intervals with their numbers, oldest first; None: those of all jobs.

    Args:
        reader: only of jobs that this user may read.
    """
    query = select(intervals.c.id, *_COLUMNS).order_by(intervals.c.id)
    if job_ids is not None:
        query = query.where(intervals.c.job_id.in_(list(job_ids)))
    if reader is not None:
        query = query.where(intervals.c.job_id.in_(select(jobs.c.id).where(told_to(reader))))
    for number, *values in connection.execute(query.execution_options(yield_per=1000)):
        yield number, UsageInterval(*values)
