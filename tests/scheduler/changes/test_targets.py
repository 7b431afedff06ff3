"""A job with a target metric is told how far it is, and at the end what became of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from coadapt.core.reports import MeasuredAt
from coadapt.core.training_config import TrainingConfig
from coadapt.estimators.curves.curve import Curve, MetricCurve
from coadapt.executor.protocol.job_events import JobFinished, Reported
from coadapt.executor.protocol.metric_limits import TOO_MANY
from coadapt.scheduler.changes.reactions import react
from coadapt.scheduler.changes.targets import reported as named_metrics
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.views.job_views import job_details

from tests.support.records import REPORT, A, reported, running, said

TARGET = {"target": {"metric": "accuracy", "at_least": 0.97}}
LOSS = {"target": {"metric": "loss", "at_most": 0.5}}


def test_metrics_that_are_left_out_are_told_once() -> None:
    first = reported(running(A), {f"m{i}": 0.0 for i in range(400)})
    assert said(first) == [TOO_MANY]
    assert reported(first.job, {f"m{i}": 1.0 for i in range(400)}).events == ()


def test_a_sentence_names_eight_of_many_metrics() -> None:
    assert named_metrics({f"m{i:02}": 0.0 for i in range(10)}) == (
        "reported: m00, m01, m02, m03, m04, m05, m06, m07 and 2 more"
    )


@pytest.mark.parametrize(
    ("training", "metrics", "event", "phase", "reason"),
    [
        ({}, {}, {}, "succeeded", "did all that was asked for"),
        (TARGET, {"accuracy": 0.98}, {"target_reached": True}, "succeeded", "reached its target"),
        (
            TARGET,
            {"val_loss": 1.0, "loss": 0.1},
            {},
            "failed",
            "target: accuracy was never reported; reported: loss, val_loss",
        ),
        (TARGET, {}, {}, "failed", "target: accuracy was never reported; nothing was reported"),
        (
            LOSS,
            {"loss": 0.69},
            {},
            "succeeded",
            "did all that was asked for; loss is 0.69, the target at most 0.5 was not reached",
        ),
        (
            LOSS,
            {"loss": math.nan},
            {"ended_early": "epoch 1 of 3"},
            "succeeded",
            "ended by itself after epoch 1 of 3; loss is NaN, the target at most 0.5 was not reached",
        ),
        (
            TARGET,
            {"accuracy": 0.99},  # reported after the last epoch
            {},
            "succeeded",
            "did all that was asked for; accuracy is 0.99, the target at least 0.97 is reached",
        ),
    ],
)
def test_what_became_of_a_target_is_said_at_the_end(
    training: dict, metrics: dict[str, float], event: dict, phase: str, reason: str
) -> None:
    done = react(running(A, **training), JobFinished(metrics, **event), 4.0).job
    assert (done.phase.value, done.state.reason) == (phase, reason)


@pytest.mark.parametrize(
    ("training", "metrics", "text", "reached"),
    [
        (TARGET, {"accuracy": 0.94}, "accuracy at least 0.97: 0.94, 0.03 to go", False),
        (TARGET, {"accuracy": 0.97}, "accuracy at least 0.97: reached, 0.97", True),
        (TARGET, {"accuracy": math.nan}, "accuracy at least 0.97: NaN", False),
        (TARGET, {"loss": 1.0}, "accuracy at least 0.97: not reported yet; reported: loss", False),
        (LOSS, {"loss": 2.25}, "loss at most 0.5: 2.25, 1.75 to go", False),
        (LOSS, {"loss": math.inf}, "loss at most 0.5: Infinity", False),
    ],
)
def test_describe_shows_the_target_its_value_and_how_far_it_is(
    training: dict, metrics: dict[str, float], text: str, reached: bool
) -> None:
    view = job_details(reported(running(A, **training), metrics).job, [])["target"]
    assert (view["text"], view["reached"]) == (text, reached)


def test_a_target_that_is_not_among_the_metrics_is_told_after_the_second_epoch() -> None:
    first = reported(running(A, **TARGET), {"acc": 0.1}, epoch=1)
    assert first.events == (), "many scripts evaluate in every second epoch"
    second = reported(first.job, {"acc": 0.1}, epoch=2)
    assert said(second) == ["accuracy, its target, was not reported in its first 2 epochs; reported: acc"]
    assert reported(second.job, {"acc": 0.1}, epoch=3).events == ()
    assert reported(first.job, {"accuracy": 0.1}, epoch=2).events == ()
    assert said(reported(running(A, **TARGET), {"acc": 0.1}, epoch=4)) != [], "its first report may come late"


# --- its learning curve -----------------------------------------------------------------------------------------


def evaluated(found: JobRecord, at: float, value: float, metric: str = "accuracy") -> JobRecord:
    """Return what a report makes of a job that has measured a metric after so many samples."""
    progress = replace(REPORT.progress, progress_samples=at, samples=int(at))
    measured = {metric: MeasuredAt(1, int(at))}
    report = replace(REPORT, metrics={metric: value}, progress=progress, measured_at=measured)
    return react(found, Reported(report, None), 3.0).job


def trained(*points: tuple[float, float]) -> JobRecord:
    found = running(A, **TARGET)
    for at, value in points:
        found = evaluated(found, at, value)
    return found


def test_the_targets_metric_becomes_a_curve() -> None:
    found = trained((64.0, 0.5), (128.0, 0.6))
    assert found.curve == MetricCurve("accuracy", Curve((64.0, 128.0), (0.5, 0.6)))
    assert evaluated(found, 192.0, 9.0, "loss").curve == found.curve, "other metrics are none of its points"
    assert evaluated(running(A), 64.0, 0.5).curve == MetricCurve(), "a job without a target needs none"


def test_a_report_without_a_new_evaluation_adds_no_point() -> None:
    found = trained((64.0, 0.5))
    told = replace(REPORT, metrics={"accuracy": 0.5}, measured_at=dict(found.measured_at))
    later = replace(told, progress=replace(REPORT.progress, progress_samples=100.0))
    assert react(found, Reported(later, None), 4.0).job.curve == found.curve


def test_a_program_that_tells_no_place_adds_a_point_where_the_value_is_a_new_one() -> None:
    found = running(A, **TARGET)
    for at, value in ((10.0, 0.5), (20.0, 0.5), (30.0, 0.7)):
        progress = replace(REPORT.progress, progress_samples=at)
        found = react(
            found, Reported(replace(REPORT, metrics={"accuracy": value}, progress=progress), None), 3.0
        ).job
    assert found.curve.curve == Curve((10.0, 30.0), (0.5, 0.7))


def test_points_beyond_a_restored_checkpoint_are_dropped() -> None:
    found = trained((64.0, 0.5), (128.0, 0.6), (192.0, 0.7), (100.0, 0.55))
    assert found.curve.curve == Curve((64.0, 100.0), (0.5, 0.55))


def test_nan_is_no_point() -> None:
    assert trained((64.0, 0.5), (128.0, math.nan)).curve.curve == Curve((64.0,), (0.5,))


def test_another_target_begins_another_curve() -> None:
    found = trained((64.0, 0.5), (128.0, 0.6))
    other = TrainingConfig.model_validate(LOSS)
    changed = replace(found, spec=found.spec.model_copy(update={"training": other}))
    assert evaluated(changed, 192.0, 2.0, "loss").curve == MetricCurve("loss", Curve((192.0,), (2.0,)))
