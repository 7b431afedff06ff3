"""A job's target metric: how far it is, and whether the job ended with it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ...core.job import Phase
from ...core.json_numbers import shown
from ...core.training_config import MetricTarget

MOST_NAMED = 8  # most metrics that a sentence names


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
    return f"{target.metric}, its target, was not reported in its first epoch; {reported(metrics)}"


def reported(metrics: Mapping[str, float]) -> str:
    names = sorted(metrics)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"reported: {', '.join(names[:MOST_NAMED])}{more}" if names else "nothing was reported"
