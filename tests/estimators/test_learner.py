"""A learner sees only what had ended, and a file that is torn or wrong leaves the last good model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from coadapt.core.log_normal import LogNormal
from coadapt.estimators import learned_file
from coadapt.estimators.curves.curve import Curve, MetricCurve
from coadapt.estimators.learner import EndedRun, learn
from coadapt.estimators.run_lengths import PRIOR_SIGMA, RunLengthLearner, RunLengths

RUNS = [EndedRun("u", "s", 10.0 * n, 100.0 + n, 1000.0 + n) for n in range(1, 9)]


class Watching(RunLengthLearner):
    """Notes what it is shown."""

    def __init__(self) -> None:
        self.seen: list[EndedRun] = []

    def fit(self, history: Sequence[EndedRun], now: float) -> RunLengths:
        self.seen = list(history)
        return super().fit(history, now)


@pytest.mark.parametrize("now", [0.0, 10.0, 35.0, 80.0, 1e9])
def test_a_learner_never_sees_a_run_that_ended_later(now: float) -> None:
    learner = Watching()
    learn(learner, reversed(RUNS), now)
    assert learner.seen == [run for run in RUNS if run.ended_s <= now], "in the order in which they ended"


@pytest.mark.parametrize(
    ("field", "value"), [("ended_s", math.nan), ("trained_s", -1.0), ("samples", math.inf), ("ended_s", math.inf)]
)
def test_a_run_that_cannot_be_is_refused_in_one_sentence(field: str, value: float) -> None:
    about = {"ended_s": 1.0, "trained_s": 1.0, "samples": 1.0} | {field: value}
    with pytest.raises(ValueError, match=f"{field}: {value} is not accepted, must be finite and 0 or more"):
        EndedRun("u", "s", **about)


class BecomesNan(RunLengthLearner):
    name: ClassVar[str] = "nan"

    def fit(self, history: Sequence[EndedRun], now: float) -> RunLengths:
        return _Nan()


class _Nan(RunLengths):
    def to_json(self) -> Mapping[str, Any]:
        return {"scripts": [{"user": "u", "script": "s", "seconds": [math.nan, 0.1], "samples": None}]}


def test_a_learner_that_returns_nan_is_refused_in_one_sentence() -> None:
    told = "^run_lengths: median: nan is not accepted, must be a finite number above 0$"
    with pytest.raises(ValueError, match=told):
        learn(BecomesNan(), RUNS, 50.0)


# --- the file -------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    written = tmp_path / "learned" / "run_lengths.json"
    learned_file.write(written, "run_lengths", learn(RunLengthLearner(), RUNS, 1e9).to_json(), 80.0)
    return written


def test_a_learned_model_comes_back_from_its_file(path: Path) -> None:
    document, until_s = learned_file.read(path, "run_lengths")
    assert until_s == 80.0
    assert RunLengthLearner().read(document) == learn(RunLengthLearner(), RUNS, 1e9)
    assert not list(path.parent.glob(".*")), "nothing is left beside it"


def torn(text: str) -> str:
    return text[: len(text) // 2]


def changed(text: str) -> str:
    return text.replace('"u"', '"v"')


def with_nan(text: str) -> str:
    document = json.loads(text)
    document["model"]["scripts"][0]["seconds"][0] = math.nan
    return json.dumps(document)


def of_another_time(text: str) -> str:
    return text.replace('"until_s": 80.0', '"until_s": 90.0')


def without_time(text: str) -> str:
    return text.replace('"until_s": 80.0', '"until_s": null')


def named(text: str) -> str:
    return json.dumps(json.loads(text) | {"name": "other"})


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (torn, "is torn or no learned model: "),
        (changed, "is torn or was changed, its digest differs"),
        (of_another_time, "is torn or was changed, its digest differs"),
        (without_time, "until_s: None is not accepted, must be a time in seconds"),
        (with_nan, "holds NaN or infinity, which no learned model has"),
        (named, "holds 'other' of version 1, and 'run_lengths' of version 1 is accepted"),
        (lambda text: "[]", "is no learned model"),
        (lambda text: "", "is torn or no learned model: "),
    ],
)
def test_a_spoilt_file_is_told_in_one_sentence(path: Path, spoil: Any, told: str) -> None:
    path.write_text(spoil(path.read_text()))
    with pytest.raises(ValueError, match=r"learned model|digest|version 1|until_s") as found:
        learned_file.read(path, "run_lengths")
    assert str(found.value).startswith(f"{path}: ")
    assert told in str(found.value)


def test_a_model_with_nan_is_not_written_over_the_last_good_one(path: Path) -> None:
    good = path.read_text()
    with pytest.raises(ValueError, match="a learned model with NaN or infinity is not kept"):
        learned_file.write(path, "run_lengths", {"scripts": [math.nan]}, 80.0)
    assert path.read_text() == good


def test_a_process_that_dies_while_it_writes_leaves_the_last_good_file(path: Path) -> None:
    path.with_name(f".{path.name}.part").write_text("half")
    assert learned_file.read(path, "run_lengths")[0]["scripts"]


# --- how long runs take -----------------------------------------------------------------------------------------


def test_one_run_is_taken_for_the_next_with_doubt_and_more_runs_with_less() -> None:
    one = learn(RunLengthLearner(), RUNS[:1], 1e9).of("u", "s")
    many = learn(RunLengthLearner(), RUNS, 1e9).of("u", "s")
    assert one is not None
    assert many is not None
    assert one.seconds.median == pytest.approx(101.0)
    assert one.seconds.sigma == pytest.approx(PRIOR_SIGMA * math.sqrt(2))
    assert many.seconds.sigma < one.seconds.sigma / 2
    assert many.samples is not None
    assert learn(RunLengthLearner(), RUNS, 1e9).of("u", "another") is None
    assert learn(RunLengthLearner(), RUNS, 1e9).of("v", "s") is None


@pytest.mark.parametrize("done", [0.0, 50.0, 150.0, 400.0])
def test_what_is_left_is_that_of_the_lengths_that_are_longer_than_what_is_done(done: float) -> None:
    lengths = 100.0 * np.exp(0.5 * np.random.default_rng(0).standard_normal(1_000_000))
    longer = lengths[lengths > done] - done
    found = LogNormal(100.0, 0.5).left(done)
    assert found is not None
    mean, low, high = found
    assert mean == pytest.approx(longer.mean(), rel=0.05)
    assert (low, high) == pytest.approx(tuple(np.percentile(longer, [10, 90])), rel=0.05)


def test_of_a_job_that_has_outlived_all_earlier_runs_nothing_is_known() -> None:
    assert LogNormal(100.0, 0.1).left(1000.0) is None


def test_curves_of_a_scripts_metrics_are_kept_the_newest_four_of_each() -> None:
    def run(n: int, metric: str) -> EndedRun:
        return replace(RUNS[n], curve=MetricCurve(metric, Curve((1.0, 2.0), (0.1, float(n)))))

    history = [run(n, "accuracy" if n % 2 else "loss") for n in range(8)] + [replace(run(6, "loss"), ended_s=90.0)]
    found = learn(RunLengthLearner(), history, 1e9).of("u", "s")
    assert found is not None
    assert [curve.values[1] for curve in found.curves["accuracy"]] == [1.0, 3.0, 5.0, 7.0]
    assert [curve.values[1] for curve in found.curves["loss"]] == [2.0, 4.0, 6.0, 6.0]


def test_curves_are_read_again_and_a_model_of_an_earlier_version_knows_none() -> None:
    curve = Curve((1.0, 2.0), (0.1, 0.4))
    model = learn(RunLengthLearner(), [replace(RUNS[0], curve=MetricCurve("accuracy", curve))], 1e9)
    document = json.loads(json.dumps(model.to_json()))
    assert RunLengthLearner().read(document) == model
    del document["scripts"][0]["curves"]
    known = RunLengthLearner().read(document).of("u", "s")
    assert known is not None
    assert known.curves == {}


def test_a_curve_that_is_none_is_refused_in_one_sentence() -> None:
    document = learn(RunLengthLearner(), RUNS, 1e9).to_json()
    document["scripts"][0]["curves"] = {"accuracy": [[["x", 1.0]]]}
    with pytest.raises(ValueError, match=r"^run_lengths: "):
        RunLengthLearner().read(document)
