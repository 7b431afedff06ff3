"""What is wrong with a study is told before its first trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from coadapt.tuning.live.check import job_problem, names_of, names_problem
from coadapt.tuning.study_file import from_values

FILE: dict[str, Any] = {
    "name": "digits",
    "job": "job.yaml",
    "space": {"lr": {"log": [0.001, 1.0]}, "momentum": 0.9},
    "metric": "accuracy",
    "mode": "max",
    "trials": 12,
    "epochs": 9,
}
JOB: dict[str, Any] = {"name": "digits", "script": "train.py"}


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (
            {"name": "digits", "command": ["python", "train.py"]},
            "trials: it is for a script that calls coadapt.prepare",
        ),
        ({**JOB, "elastic": False}, "trials: it is for a script that calls coadapt.prepare"),
        ({**JOB, "env": {"COADAPT_MODE": "x"}}, "env.COADAPT_MODE: set by coadapt"),
    ],
)
def test_a_job_that_is_none_of_trials_is_refused(job: dict[str, Any], told: str) -> None:
    assert told in job_problem(from_values(FILE), job)


@pytest.mark.parametrize(
    "more", [{}, {"training": {"target": {"metric": "loss", "at_most": 1}}}, {"deadline": "6h"}]
)
def test_a_job_that_adapts_is_one_of_trials(more: dict[str, Any]) -> None:
    assert job_problem(from_values(FILE), {**JOB, **more}) == ""


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("hp = coadapt.hyperparameters(lr=0.1, momentum=0.9)", ""),
        ("from coadapt import hyperparameters\nhp = hyperparameters(lr=0.1, momentum=0.9)", ""),
        ("hp = coadapt.hyperparameters(momentum=0.9)", "space.lr: the script never asks for it"),
        ("hp = coadapt.hyperparameters(lr=1, momentum=1, wd=0)", "the script asks for wd, which the space lacks"),
        ("hp = coadapt.hyperparameters(**defaults)", ""),
        ("import train", ""),
        ("this is no Python", ""),
    ],
)
def test_names_of_the_space_are_those_of_the_script(script: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(script)
    found = names_problem(from_values(FILE), path)
    assert (told in found) if told else found == ""


def test_a_script_that_is_not_there_is_nobody_s_fault_here(tmp_path: Path) -> None:
    assert names_of(tmp_path / "gone.py") is None
