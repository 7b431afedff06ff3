"""A job with a target metric is told how far it is, and at the end what became of it."""

from __future__ import annotations

import math

import pytest
from coadapt.executor.protocol.job_events import JobFinished
from coadapt.executor.protocol.metric_limits import TOO_MANY
from coadapt.scheduler.changes.reactions import react
from coadapt.scheduler.changes.targets import reported as named_metrics
from coadapt.scheduler.views.job_views import job_details

from tests.support.records import A, reported, running, said

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


def test_a_target_that_is_not_among_the_metrics_is_told_after_the_first_epoch() -> None:
    first = reported(running(A, **TARGET), {"acc": 0.1}, epoch=1)
    told = "accuracy, its target, was not reported in its first epoch; reported: acc"
    assert said(first) == [told]
    assert reported(first.job, {"acc": 0.1}, epoch=1).events == ()
    assert reported(running(A, **TARGET), {"accuracy": 0.1}, epoch=1).events == ()
