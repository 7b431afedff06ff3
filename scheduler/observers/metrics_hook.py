"""Keeps the history of what scripts report, and of how fast and with which batches they train."""

from __future__ import annotations

from collections.abc import Mapping

from ...core.doors import Door
from ...core.reports import Report
from ...executor.protocol.job_events import JobFinished, Reported
from ...executor.protocol.metric_limits import shortened
from ..jobs.record import JobRecord
from ..store.metrics import MetricsHistory, Point
from ..store.training_curves import BATCH_SIZE, GOODPUT, LR, NOISE, STEP_S
from .hooks import Change, CycleHook

LEAST_S = 1.0  # between two reports of which goodput is told: at ends of epochs some come at once


class MetricsHook(CycleHook):
    """Adds a point for each metric that a report has measured anew, and points of the training itself."""

    def __init__(self, history: MetricsHistory) -> None:
        self._history = history
        self._before: dict[str, tuple[float, float]] = {}  # moment and progress of the last report, by job

    def changed(self, change: Change) -> None:
        """Keep the points, in the transaction of the change."""
        cause = change.cause
        told: Mapping[str, float] = {}
        found: dict[str, Point] = {}
        if isinstance(cause, Reported):
            told, found = cause.report.metrics, self._of_training(change, cause.report)
        elif isinstance(cause, JobFinished):
            told = cause.metrics
        found |= _points(change, told, repeats=isinstance(cause, JobFinished))
        if found:
            self._history.add(change.after.id, found)

    def retired(self, job: JobRecord) -> None:
        """Count its points no more."""
        self._history.forget(job.id)
        self._before.pop(job.id, None)

    def _of_training(self, change: Change, report: Report) -> dict[str, Point]:
        """Return how fast a job has trained since its last report, and with which batches it does now.

        Goodput is progress over all the time between, pauses too: initial-batch-size samples/s.
        """
        job, now, progress = change.after, change.now, report.progress
        native, noise = job.spec.door is Door.NATIVE, job.report.get("noise_scale")
        steps = sum(row.count for row in report.rows)
        values: dict[str, float | None] = {
            BATCH_SIZE: report.batch_size or None,  # a command may tell none
            LR: report.lr if native else report.lr or None,
            NOISE: noise if isinstance(noise, float) else None,
            STEP_S: sum(row.step_time_s * row.count for row in report.rows) / steps if steps else None,
        }
        before_s, before = self._before.get(job.id, (now, progress.progress_samples))
        if now - before_s >= LEAST_S and progress.progress_samples >= before:
            values[GOODPUT] = (progress.progress_samples - before) / (now - before_s)
        if now - before_s >= LEAST_S or job.id not in self._before or progress.progress_samples < before:
            self._before[job.id] = now, progress.progress_samples
        at = progress.epoch or None, progress.samples
        return {name: Point(now, value, *at) for name, value in values.items() if value is not None}


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
