"""GPU time that jobs held in some time, summed by who they were of, their GPU type and what they did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, and_, case, func, insert, select, update

from ...core.teams import kind_of
from .schema import gpu_time, intervals, jobs


@dataclass(frozen=True)
class Used:
    """GPU-seconds of a user's jobs of one team, on GPUs of one type (with its pool), in a phase."""

    owner: str
    team: str
    gpu_type: str
    phase: str
    gpu_s: float


def read(connection: Connection, since_s: float, now: float) -> Iterator[Used]:
    """Yield what was held from a moment until now. Jobs that were removed from the store are not counted."""
    end = case((intervals.c.end_s.is_(None), now), else_=intervals.c.end_s)
    begin = case((intervals.c.start_s < since_s, since_s), else_=intervals.c.start_s)
    keys = jobs.c.owner, jobs.c.team, jobs.c.pool, intervals.c.gpu_type, intervals.c.phase
    query = (
        select(*keys, func.sum((end - begin) * intervals.c.gpus * intervals.c.share))
        .join(jobs, jobs.c.id == intervals.c.job_id)
        .where(intervals.c.end_s.is_(None) | (intervals.c.end_s > since_s))
        .group_by(*keys)
        .order_by(*keys)
    )
    for owner, team, pool, gpu_type, phase, gpu_s in connection.execute(query):
        yield Used(owner, team, kind_of(gpu_type, pool), phase, max(float(gpu_s), 0.0))


def add(job_id: str, day: str, rows: Sequence[tuple[str, str, float]]) -> Callable[[Connection], None]:
    """Return a write that adds GPU-seconds of a job on a day: (kind, GPU type, GPU-seconds)."""

    def write(connection: Connection) -> None:
        for kind, gpu_type, gpu_s in rows:
            same = {"job_id": job_id, "day": day, "kind": kind, "gpu_type": gpu_type}
            where = and_(*(gpu_time.c[name] == value for name, value in same.items()))
            changed = connection.execute(update(gpu_time).where(where).values(gpu_s=gpu_time.c.gpu_s + gpu_s))
            if not changed.rowcount:
                connection.execute(insert(gpu_time), [{**same, "gpu_s": gpu_s}])

    return write


def read_kinds(connection: Connection, since_day: str) -> Iterator[Used]:
    """Yield what was started, idle and lost from a day on; `phase` names which."""
    keys = jobs.c.owner, jobs.c.team, jobs.c.pool, gpu_time.c.gpu_type, gpu_time.c.kind
    query = (
        select(*keys, func.sum(gpu_time.c.gpu_s))
        .join(jobs, jobs.c.id == gpu_time.c.job_id)
        .where(gpu_time.c.day >= since_day)
        .group_by(*keys)
        .order_by(*keys)
    )
    for owner, team, pool, gpu_type, kind, gpu_s in connection.execute(query):
        yield Used(owner, team, kind_of(gpu_type, pool), kind, float(gpu_s))
