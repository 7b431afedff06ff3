"""Numbers that are none stay what they were, in words and in JSON that every reader takes."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from coadapt.cli import main
from coadapt.core.events import EventKind
from coadapt.core.job import JobSpec, JobState, Phase
from coadapt.core.json_numbers import all_finite, dumps, restored, shown
from coadapt.core.reports import MeasuredAt, Progress, Report
from coadapt.core.schemas import JobDetails
from coadapt.core.slot import Slot
from coadapt.executor.protocol.job_events import JobFinished, Reported, Running
from coadapt.executor.protocol.metric_limits import MOST, MOST_NAME, TOO_LONG, TOO_MANY, bounded, places
from coadapt.scheduler.presenters import job_details, job_row
from coadapt.scheduler.reactions import Reaction, claim, react
from coadapt.scheduler.record import JobRecord
from coadapt.scheduler.store import Event, Store

SLOT = Slot("n1", "l", (0,), "t4", emulated=True)


def no_constant(name: str) -> float:
    raise AssertionError(f"{name} is no JSON")


def strict(text: str) -> object:
    return json.loads(text, parse_constant=no_constant)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"loss": math.nan}, '{"loss":"NaN"}'),
        ({"a": [math.inf, (-math.inf, 1.5)]}, '{"a":["Infinity",["-Infinity",1.5]]}'),
        ({"n": np.float32("nan"), "i": np.int64(3)}, '{"n":"NaN","i":3}'),
        ({"name": "NaN"}, '{"name":"NaN"}'),
        ({"path": Path("/x")}, '{"path":"/x"}'),
    ],
)
def test_json_is_valid_whatever_the_numbers(document: object, text: str) -> None:
    assert dumps(document) == text
    strict(dumps(document, indent=2))


def test_figures_are_read_back_as_they_were() -> None:
    figures = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 0.5, "e": "t4"}
    back = restored(json.loads(dumps(figures)))
    assert repr(back) == repr(figures)
    assert [all_finite({"x": [value]}) for value in (1.0, math.nan, math.inf)] == [True, False, False]


def test_figures_are_shown_in_the_same_words() -> None:
    assert [shown(x) for x in (None, math.nan, -math.inf, 0.123456)] == ["-", "NaN", "-Infinity", "0.1235"]


def reported(job: JobRecord, metrics: dict[str, float], epoch: int = 0) -> Reaction:
    report = Report(
        1, "t4", 1, 1, (), None, None, 8, 8, 0, math.nan, 1.0, Progress(epoch, 3, 0.1, 1, 8, 8.0), metrics
    )
    return react(job, Reported(report, None), 3.0)


def running(**training: object) -> JobRecord:
    spec = JobSpec.model_validate({"name": "j", "script": "t.py", "training": training})
    job = claim(JobRecord("j-1", 1, spec, JobState(Phase.QUEUED)), (SLOT,), 1.0).job
    return react(job, Running(job.sequence, (SLOT,), warm=False), 2.0).job


def test_a_diverged_loss_is_kept_by_the_store_and_shown_as_valid_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    job, _ = store.submit(running().spec, 1.0, idempotency_key="a")
    found = reported(running(), {"loss": math.nan, "best": math.inf}).job
    store.save(
        JobRecord(job.id, 1, job.spec, JobState(Phase.FAILED), metrics=found.metrics, report=found.report),
        Event(EventKind.FINISH, 2.0, job.id, {"text": "over", "metrics": found.metrics}),
    )
    store.close()
    again = Store(tmp_path / "jobs.sqlite")
    kept = again.get(job.id)
    assert math.isnan(kept.metrics["loss"])
    assert kept.metrics["best"] == math.inf

    class Client:
        def list(self) -> list[dict]:
            return [dict(job_row(kept))]

        def describe(self, job_id: str) -> JobDetails:
            return job_details(kept, again.events(job_id))

    monkeypatch.setattr(main, "_connect", Client)
    for command in (["list", "--json"], ["describe", job.id, "--json"]):
        assert main.run(command) == 0
        assert '"NaN"' in str(strict(capsys.readouterr().out)).replace("'", '"')
    assert main.run(["describe", job.id]) == 0
    assert "loss=NaN best=Infinity" in capsys.readouterr().out


def test_metrics_are_bounded_and_the_last_named_and_the_target_stay() -> None:
    many = {f"m{i}": float(i) for i in range(100_000)}
    kept, said = bounded({"accuracy": 0.5}, many, "accuracy")
    assert (len(kept), said) == (MOST, TOO_MANY)
    assert kept["accuracy"] == 0.5
    assert "m99999" in kept
    kept, said = bounded({}, {"x" * 300: 1.0})
    assert (list(kept), said) == (["x" * (MOST_NAME - 1) + "…"], TOO_LONG)
    assert bounded({"a": 1.0}, {"b": 2.0}) == ({"a": 1.0, "b": 2.0}, "")
    per_epoch: dict[str, float] = {}
    for epoch in range(150):
        per_epoch, _ = bounded(per_epoch, {"loss": float(epoch), f"loss_{epoch}": 1.0})
    assert (per_epoch["loss"], "loss_149" in per_epoch, "loss_0" in per_epoch) == (149.0, True, False)


def test_where_a_metric_was_measured_is_kept_as_long_as_the_metric_is() -> None:
    known, new = {"a": MeasuredAt(1, 10), "gone": MeasuredAt(1, 10)}, {"x" * 300: MeasuredAt(2, 20)}
    metrics, _ = bounded({"a": 1.0}, {"x" * 300: 2.0})
    assert places(metrics, known, new) == {"a": MeasuredAt(1, 10), "x" * (MOST_NAME - 1) + "…": MeasuredAt(2, 20)}
    assert places(metrics, known, None) == {"a": MeasuredAt(1, 10)}


def test_metrics_that_are_left_out_are_told_once() -> None:
    first = reported(running(), {f"m{i}": 0.0 for i in range(200)})
    assert [event.data["text"] for event in first.events] == [TOO_MANY]
    assert reported(first.job, {f"m{i}": 1.0 for i in range(200)}).events == ()


TARGET = {"target": {"metric": "accuracy", "at_least": 0.97}}
LOSS = {"target": {"metric": "loss", "at_most": 0.5}}


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
    done = react(running(**training), JobFinished(metrics, **event), 4.0).job
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
    view = job_details(reported(running(**training), metrics).job, [])["target"]
    assert (view["text"], view["reached"]) == (text, reached)


def test_a_target_that_is_not_among_the_metrics_is_told_after_the_first_epoch() -> None:
    first = reported(running(**TARGET), {"acc": 0.1}, epoch=1)
    told = "accuracy, its target, was not reported in its first epoch; reported: acc"
    assert [event.data["text"] for event in first.events] == [told]
    assert reported(first.job, {"acc": 0.1}, epoch=1).events == ()
    assert reported(running(**TARGET), {"accuracy": 0.1}, epoch=1).events == ()
