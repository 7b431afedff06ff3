"""What of a changed job file does not fit a checkpoint is told when it is known, and never guessed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from coadapt.core.job import JobSpec
from coadapt.core.reports import JobInfo
from coadapt.estimators.measurements import Measurements
from coadapt.scheduler.changes.changed_files import Fit, fit

from tests.support.records import job

ELASTIC: dict[str, Any] = {"name": "a", "script": "train.py"}
SHARDED = {"gpus_per_replica": 2, "processes_per_replica": "gpu"}


def model(parameters: int, fingerprint: str = "f") -> Measurements:
    return Measurements().with_info(JobInfo(fingerprint, 32, parameters, 4096, adam_type=False))


def found(
    changed: dict[str, Any],
    then: Measurements | None = None,
    now: Measurements | None = None,
    source: dict[str, Any] | None = None,
) -> Fit:
    record = replace(job(spec=JobSpec.model_validate(source or ELASTIC)), measurements=then)
    return fit(record, JobSpec.model_validate({"name": "b", **changed}), now)


def test_other_options_of_the_same_script_are_nothing_to_tell() -> None:
    assert found({"script": "train.py", "args": ["--lr", "0.2"]}, model(10), model(10)) == Fit()
    assert found({"script": "train.py"}, model(10), None) == Fit()
    assert found({"script": "train.py"}, None, model(10)) == Fit()


def test_a_model_of_another_size_is_refused_where_an_earlier_job_showed_it() -> None:
    (told,) = found({"script": "train.py"}, model(1234), model(56_789, "other")).refused
    assert told == (
        "train.py: trains a model of 56,789 parameters, as an earlier job of it showed, and the checkpoint of j-1 "
        "is of one with 1,234"
    )


def test_layers_of_other_kinds_may_fit_and_are_only_told() -> None:
    assert found({"script": "train.py"}, model(10), model(10, "other")) == Fit(
        notes=("train.py: its model has other layers than that of j-1, which may not fit",)
    )


@pytest.mark.parametrize(
    ("source", "changed", "note"),
    [
        (ELASTIC, {"script": "b.py"}, "script: b.py, and j-1 ran train.py; it has to prepare the same model"),
        (
            ELASTIC,
            {"script": "train.py", "resources": SHARDED},
            "resources.processes_per_replica: gpu, and the checkpoint is of a job with one; "
            "it is cut anew, if the model is the same",
        ),
        (
            {"name": "a", "command": ["make", "x"]},
            {"command": ["bash", "x"]},
            "command: bash, and j-1 ran make; it finds the same outputs",
        ),
    ],
    ids=["script", "shards", "command"],
)
def test_what_may_not_fit_is_told(source: dict[str, Any], changed: dict[str, Any], note: str) -> None:
    assert found(changed, source=source) == Fit(notes=(note,))
