"""Keeps the history of what scripts report."""

from __future__ import annotations

from collections.abc import Mapping

from ...executor.protocol.job_events import JobFinished, Reported
from ...executor.protocol.metric_limits import shortened
from ..jobs.record import JobRecord
from ..store.metrics import MetricsHistory, Point
from .hooks import Change, CycleHook


class MetricsHook(CycleHook):
    """Adds a point for each metric that a report has measured anew."""

    def __init__(self, history: MetricsHistory) -> None:
        self._history = history

    def changed(self, change: Change) -> None:
        """Keep the points, in the transaction of the change."""
        cause = change.cause
        told: Mapping[str, float] = {}
        if isinstance(cause, Reported):
            told = cause.report.metrics
        elif isinstance(cause, JobFinished):
            told = cause.metrics
        if told:
            self._history.add(change.after.id, _points(change, told, repeats=isinstance(cause, JobFinished)))

    def retired(self, job: JobRecord) -> None:
        """Count its points no more."""
        self._history.forget(job.id)


def _points(change: Change, told: Mapping[str, float], *, repeats: bool) -> dict[str, Point]:
    """Return the points of a report by metric. `repeats`: whether it tells again what reports have told."""
    before, after = change.before, change.after
    points: dict[str, Point] = {}
    for name in map(shortened, told):
        if name not in after.metrics:
            continue
        place, value = after.measured_at.get(name), after.metrics[name]
        same_value = repr(before.metrics.get(name)) == repr(value)  # also of NaN
        same_place = place is not None and before.measured_at.get(name) == place
        if same_value if repeats else same_place:
            continue
        epoch, samples = (None, None) if place is None or same_place else (place.epoch, place.samples)
        points[name] = Point(change.now, value, epoch, samples)
    return points
