"""GPU time that jobs held in some time, summed by who they were of, their GPU type and what they did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select

from .schema import intervals, jobs


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
        select(*keys, func.sum((end - begin) * intervals.c.gpus))
        .join(jobs, jobs.c.id == intervals.c.job_id)
        .where(intervals.c.end_s.is_(None) | (intervals.c.end_s > since_s))
        .group_by(*keys)
        .order_by(*keys)
    )
    for owner, team, pool, gpu_type, phase, gpu_s in connection.execute(query):
        yield Used(owner, team, f"{gpu_type}@{pool}" if pool else gpu_type, phase, max(float(gpu_s), 0.0))
