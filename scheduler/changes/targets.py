"""A job's target metric: how far it is, and whether the job ended with it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ...core.job import Phase
from ...core.json_numbers import shown
from ...core.reports import Report
from ...core.training_config import MetricTarget
from ...estimators.curves.curve import NO_CURVE, Curve, MetricCurve
from ..jobs.record import JobRecord

MOST_NAMED = 8  # most metrics that a sentence names
EPOCHS_TO_REPORT = 2  # within which a script should report its target; many evaluate in every second one


def ending(
    target: MetricTarget | None, metrics: Mapping[str, float], reached: bool, ended_early: str
) -> tuple[Phase, str]:
    """Return phase and reason of a job whose script has ended without an error.

    A job that has done its epochs succeeds even without reaching its target. A target that was never reported is
    a mistake in the job file or the script, and fails the job.
    """
    ended = f"ended by itself after {ended_early}" if ended_early else "did all that was asked for"
    if reached or target is None:
        return Phase.SUCCEEDED, "reached its target" if reached else ended
    if target.metric not in metrics:
        return Phase.FAILED, f"target: {target.metric} was never reported; {reported(metrics)}"
    value = metrics[target.metric]
    missed = "is reached" if target.reached(value) else "was not reached"
    return Phase.SUCCEEDED, f"{ended}; {target.metric} is {shown(value)}, the target {bound(target)} {missed}"


def progress(target: MetricTarget, metrics: Mapping[str, float], ended: bool = False) -> str:
    """Tell how far the metric is, as in `accuracy at least 0.97: 0.94, 0.03 to go`."""
    what = f"{target.metric} {bound(target)}"
    if target.metric not in metrics:
        return f"{what}: {'never reported' if ended else 'not reported yet'}; {reported(metrics)}"
    value = metrics[target.metric]
    if target.reached(value):
        return f"{what}: reached, {shown(value)}"
    missing = short_by(target, value)
    away = "short of it" if ended else "to go"
    return f"{what}: {shown(value)}" + (f", {shown(missing)} {away}" if missing is not None else "")


def short_by(target: MetricTarget, value: float) -> float | None:
    """Return how much the metric has to change; None if that is not finite."""
    wanted = target.at_least if target.at_least is not None else target.at_most
    missing = abs((wanted or 0.0) - value)
    return missing if missing < float("inf") else None  # NaN is not below either


def bound(target: MetricTarget) -> str:
    if target.at_least is not None:
        return f"at least {shown(target.at_least)}"
    return f"at most {shown(target.at_most)}"


def missing(target: MetricTarget | None, metrics: Mapping[str, float]) -> str:
    """Tell in one sentence that a job's target was not among its metrics; "" if it was or there is none."""
    if target is None or target.metric in metrics:
        return ""
    since = f"in its first {EPOCHS_TO_REPORT} epochs"
    return f"{target.metric}, its target, was not reported {since}; {reported(metrics)}"


def reported(metrics: Mapping[str, float]) -> str:
    names = sorted(metrics)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"reported: {', '.join(names[:MOST_NAMED])}{more}" if names else "nothing was reported"


def with_evaluation(job: JobRecord, report: Report, target: MetricTarget | None) -> MetricCurve:
    """Return the job's curve with the target's metric, where a report has it measured anew.

    What lies beyond the progress of the report goes: a checkpoint from before was restored.
    """
    if target is None:
        return NO_CURVE
    curve = job.curve.curve if job.curve.metric == target.metric else Curve()
    at, value = report.progress.progress_samples, report.metrics.get(target.metric)
    place = (report.measured_at or {}).get(target.metric)
    before = job.measured_at.get(target.metric)
    repeated = repr(job.metrics.get(target.metric)) == repr(value) if place is None else place == before
    if value is None or repeated:
        return MetricCurve(target.metric, curve.rewound(at))
    return MetricCurve(target.metric, curve.with_point(at, value))
