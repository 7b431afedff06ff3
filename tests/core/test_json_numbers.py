"""Numbers that are none stay what they were, in words and in JSON that every reader takes."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from coadapt.cli import main
from coadapt.core.events import EventKind
from coadapt.core.job import JobState, Phase
from coadapt.core.json_numbers import all_finite, answer_text, dumps, restored, shown
from coadapt.core.schemas import JobDetails
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.store.events import Event
from coadapt.scheduler.store.store import Store
from coadapt.scheduler.views.job_views import job_details, job_row

from tests.support.listed import Listed
from tests.support.records import A, reported, running


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


def test_a_diverged_loss_is_kept_by_the_store_and_shown_as_valid_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "jobs.sqlite")
    job, _ = store.submit(running(A).spec, 1.0, idempotency_key="a")
    found = reported(running(A), {"loss": math.nan, "best": math.inf}).job
    store.save(
        JobRecord(job.id, 1, job.spec, JobState(Phase.FAILED), metrics=found.metrics, report=found.report),
        Event(EventKind.FINISH, 2.0, job.id, {"text": "over", "metrics": found.metrics}),
    )
    store.close()
    again = Store(tmp_path / "jobs.sqlite")
    kept = again.get(job.id)
    assert math.isnan(kept.metrics["loss"])
    assert kept.metrics["best"] == math.inf

    class Client(Listed):
        def list(self) -> list[dict]:
            return [dict(job_row(kept))]

        def describe(self, job_id: str) -> JobDetails:
            return job_details(kept, again.events(job_id))

    monkeypatch.setattr(main, "_connect", Client)
    for command in (["list", "--json"], ["describe", job.id, "--json"]):
        assert main.run(command) == 0
        told = strict(capsys.readouterr().out)
        row = told[0] if isinstance(told, list) else told
        assert (row["metrics"]["loss"], row["metrics"]["best"]) == (None, None)
    assert main.run(["describe", job.id]) == 0
    assert "loss=NaN best=Infinity" in capsys.readouterr().out


def test_each_metric_of_an_answer_is_finite_or_null() -> None:
    plain = {"id": "j-1", "metrics": {"loss": 0.5}, "lr": 0.1}
    assert json.loads(answer_text(plain)) == plain
    answer = [{"id": "j-1", "metrics": {"loss": math.nan, "seen": 3, "worst": -math.inf}, "lr": math.nan}]
    told = json.loads(answer_text(answer))
    assert told == [{"id": "j-1", "metrics": {"loss": None, "seen": 3, "worst": None}, "lr": "NaN"}]
