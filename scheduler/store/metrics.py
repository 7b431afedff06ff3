"""The history of what jobs report: at most 1,000 points of each metric, evenly thinned, each finite or null."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import delete, func, insert, select

from .schema import metric_points
from .text_rows import Writer, void
from .training_curves import CURVES

MOST_POINTS, MOST_METRICS = 1000, 200
THINNED = 8  # metrics that one report thins
NEWEST = 40  # values of a small curve


@dataclass(frozen=True)
class Point:
    """A metric at a moment. `value`: None where it was not finite. `epoch`, `samples`: None where not known."""

    at_s: float
    value: float | None
    epoch: int | None = None
    samples: int | None = None


def stride(number: int) -> int:
    """Return how many reports stand behind each point that is kept once there are `number` + 1 reports."""
    found = 1
    while number >= MOST_POINTS * found:
        found *= 2
    return found


class MetricsHistory:
    """The points of all jobs. It counts those of active ones in memory. The caller holds the lock of the cycle."""

    def __init__(self, store: Writer) -> None:
        self._store = store
        self._next: dict[str, dict[str, int]] = {}  # numbers of the next points, by job and metric
        self._dense: dict[str, dict[str, int]] = {}  # metrics that are to be thinned, with their strides
        self._newest: dict[tuple[str, str], tuple[float, ...]] = {}  # what was asked for of active jobs

    def add(self, job_id: str, points: Mapping[str, Point]) -> None:
        """Keep one more point of some metrics, in the transaction under way."""
        following = self._numbers(job_id)
        rows = []
        for name, point in points.items():
            self._note(job_id, name, point)
            if name not in following and name not in CURVES and len(following.keys() - CURVES) >= MOST_METRICS:
                continue
            number = following.get(name, 0)
            following[name] = number + 1
            step = stride(number)
            if number and step > stride(number - 1):
                self._dense.setdefault(job_id, {})[name] = step
            if number % step == 0:
                finite = point.value is not None and math.isfinite(point.value)
                rows.append(
                    {"job_id": job_id, "metric": name, "number": number, "at_s": point.at_s}
                    | {"epoch": point.epoch, "samples": point.samples, "value": point.value if finite else None}
                )
        if rows:
            self._store.write(lambda connection: void(connection.execute(insert(metric_points), rows)))
        dense = self._dense.get(job_id, {})
        for name in list(dense)[:THINNED]:
            self._thin(job_id, name, dense.pop(name))

    def read(self, job_id: str) -> dict[str, list[Point]]:
        """Return the points of a job by metric, oldest first."""
        query = select(metric_points).where(metric_points.c.job_id == job_id)
        found: dict[str, dict[int, Point]] = {}
        with self._store.database.reading() as connection:
            for row in connection.execute(query.order_by(metric_points.c.metric, metric_points.c.number)):
                point = Point(row.at_s, row.value, row.epoch, row.samples)
                found.setdefault(row.metric, {})[row.number] = point
        return {
            name: [point for number, point in of.items() if number % stride(max(of)) == 0]
            for name, of in found.items()
        }

    def newest(self, job_id: str, metric: str) -> list[float]:
        """Return the newest finite values of one metric, oldest first."""
        if (known := self._newest.get((job_id, metric))) is not None:
            return list(known)
        columns = metric_points.c
        query = (
            select(columns.value)
            .where(columns.job_id == job_id, columns.metric == metric, columns.value.is_not(None))
            .order_by(columns.number.desc())
            .limit(NEWEST)
        )
        with self._store.database.reading() as connection:
            found = [float(value) for value in connection.scalars(query)][::-1]
        if job_id in self._next:  # it is active, and its further points are noted
            self._newest[job_id, metric] = tuple(found)
        return found

    def _note(self, job_id: str, metric: str, point: Point) -> None:
        known = self._newest.get((job_id, metric))
        if known is not None and point.value is not None and math.isfinite(point.value):
            self._newest[job_id, metric] = (*known, point.value)[-NEWEST:]

    def forget(self, job_id: str) -> None:
        """Count a job's points no more, as it has ended."""
        self._next.pop(job_id, None)
        self._dense.pop(job_id, None)
        for key in [key for key in self._newest if key[0] == job_id]:
            del self._newest[key]

    def _numbers(self, job_id: str) -> dict[str, int]:
        if job_id not in self._next:
            query = (
                select(metric_points.c.metric, func.max(metric_points.c.number))
                .where(metric_points.c.job_id == job_id)
                .group_by(metric_points.c.metric)
            )
            with self._store.database.reading() as connection:
                self._next[job_id] = {name: number + 1 for name, number in connection.execute(query)}
        return self._next[job_id]

    def _thin(self, job_id: str, name: str, step: int) -> None:
        table = metric_points.c
        sparse = delete(metric_points).where(
            table.job_id == job_id, table.metric == name, table.number % step != 0
        )
        self._store.write(lambda connection: void(connection.execute(sparse)))
